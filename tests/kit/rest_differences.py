"""Where REST answers otherwise than the recorded Java workers, on purpose: request -> what ours answers, and why."""

from __future__ import annotations

from kit.rest_replay import ANY, Differs

_BODY = "a body that is missing, malformed or of a wrong type is the caller's mistake, so 400; Java says 500"
_BAD_BODY = Differs(_BODY, 400)
_FOUND = "a name with / % or \\ works URL-encoded; Java's server refuses such paths"
_UNKNOWN = "an unknown connector is 404 everywhere"
_ALONE = "this worker is alone: Java's standalone worker says 500, which means a fault of the worker"
_TASKS = "Kafka Connect in standalone mode does not support externally setting task configurations."
_FENCE = "Kafka Connect in standalone mode does not support exactly-once source connectors."
_NOT_HERE = "a path is taken as it is written; Java's server refuses such ones with a page of HTML"
_LEFT = "the connectors with / % or \\ in their names could be deleted"
_REFUSED = "the connector was refused when it was to be created"

# -- both recordings --------------------------------------------------------------------------------------------------

UNKNOWN_CONNECTOR = Differs(_UNKNOWN, 404, "Unknown connector: none")
UNKNOWN_TOPICS = Differs(_UNKNOWN, 404, "Connector none not found")

# -- golden/standalone/rest-transcript.json ---------------------------------------------------------------------------

STANDALONE = {
    "unknown_stop": Differs(_UNKNOWN, 404, "Unknown connector none"),
    "unknown_restart": UNKNOWN_CONNECTOR,
    "unknown_task_restart": UNKNOWN_CONNECTOR,
    "unknown_topics": UNKNOWN_TOPICS,
    "unknown_topics_reset": UNKNOWN_TOPICS,
    "internal_tasks": Differs(_ALONE, 400, _TASKS),
    "internal_fence": Differs(_ALONE, 400, _FENCE),
}
# -- golden/rest/transcript.json: a worker of a cluster, asked of one that stands alone -------------------------------

_NAMES = ("post_no_body post_no_body_no_ct post_invalid_json post_invalid_json2 post_json_array post_json_string "
    "post_json_null post_empty_object post_no_config post_null_config post_unknown_prop post_config_nonstring_value "
    "post_config_array post_bad_initial_state post_lower_initial_state post_initial_state_number post_offsets_unknown "
    "put_config_bad_json put_config_array put_config_empty_body put_config_null patch_empty_body patch_null "
    "patch_bad_json patch_array offs_patch_src_no_body offs_patch_src_null offs_patch_src_bad_json "
    "offs_patch_src_offsets_object offs_patch_src_offsets_string offs_patch_src_wrong_key offs_patch_src_extra_key "
    "offs_patch_src_array_body offs_patch_src_element_not_object offs_patch_src_element_null "
    "offs_patch_src_null_partition offs_patch_src_missing_partition offs_patch_src_partition_string "
    "offs_patch_src_offset_string offs_patch_src_offset_number offs_patch_src_extra_element_key "
    "internal_tasks_bad_json "
    "validate_no_class validate_empty validate_unknown_plugin validate_array validate_bad_json validate_no_body "
    "validate_json_null logger_put_no_body logger_put_null logger_put_array")  # fmt: skip
_IMPOSSIBLE = Differs("offsets that cannot be are the caller's mistake, so 400; Java says 500", 400)
_OFFSETS = ("src_empty_partition src_unknown_partition_key src_offset_wrong_key src_offset_wrong_type "
    "src_offset_negative src_offset_float src_offset_extra_keys")  # fmt: skip
_SINK_OFFSETS = ("negative_offset negative_partition topic_int unknown_topic partition_out_of_range "
    "null_offset_unknown_topic")  # fmt: skip
_STAYED = ["pz", "rsnk", "src", "st"]
_FOUND_BY_GET = ("special_0_get_encoded", "special_6_get_encoded", "special_11_get_encoded")
_FOUND_BY_OTHERS = tuple(f"special_{number}_{what}_encoded" for number in (0, 6, 11) for what in ("status", "config"))
_JAVA_HTML = ("special_0_unencoded_slash", "special_0_plus", "special_12_get_encoded", "special_12_status_encoded",
              "special_12_config_encoded", "special_12_delete", "double_slash", "dot_encoded")  # fmt: skip

CLUSTER: dict[str, Differs] = {
    **dict.fromkeys(_NAMES.split(), _BAD_BODY),
    **{f"offs_patch_{name}": _IMPOSSIBLE for name in _OFFSETS.split()},
    **{f"snk_offs_patch_{name}": _IMPOSSIBLE for name in _SINK_OFFSETS.split()},
    "snk_offs_patch_null_partition": Differs("one sentence for sources and sinks, with the place", 400),
    "unknown_GET_/connectors/none/topics": UNKNOWN_TOPICS,
    "unknown_PUT_/connectors/none/topics/reset": UNKNOWN_TOPICS,
    **dict.fromkeys(
        (
            "unknown_POST_/connectors/none/tasks",
            "internal_tasks_no_sig",
            "internal_tasks_bad_sig",
        ),
        Differs(_ALONE, 400, _TASKS),
    ),
    **dict.fromkeys(
        ("unknown_PUT_/connectors/none/fence", "internal_fence_no_sig", "internal_fence_bad_sig"),
        Differs(_ALONE, 400, _FENCE),
    ),
    "unknown_predicate_status": Differs("a failed task keeps its version; Java's loses it", body=ANY),
    "tasks_right_after_create": Differs("standalone: tasks are there when the answer is", body=ANY),
    **dict.fromkeys(
        (*_FOUND_BY_GET, *_FOUND_BY_OTHERS, "special_0_put", "special_0_tasks"), Differs(_FOUND, 200, body=ANY)
    ),
    "special_0_post": Differs("the slash in the Location is encoded, so that the URL works", body=ANY),
    "special_11_post": Differs("the % in the Location is encoded, so that the URL works", body=ANY),
    "special_0_expand": Differs(f"{_FOUND}: it was paused before", body=ANY),
    "special_0_pause": Differs(_FOUND, 202, body=ANY),
    **dict.fromkeys(("special_0_delete", "special_6_delete", "special_11_delete"), Differs(_FOUND, 204, body=ANY)),
    **dict.fromkeys(_JAVA_HTML, Differs(_NOT_HERE, 404)),
    "special_0_bad_escape": Differs("the error is JSON like any other; Java's server sends a page of HTML", 400),
    **dict.fromkeys(
        ("list_after_special", "get_with_accept_star", "get_accept_quality", "gzip", "origin"),
        Differs(_LEFT, body=_STAYED),
    ),
    **dict.fromkeys(
        ("bad_restart_task9",), Differs("the words of Java's standalone worker", 404, "Task rbad-9 not found")
    ),
    "src_task_restart_404": Differs("the words of Java's standalone worker", 404, "Task src-5 not found"),
    "src_stopped_task_restart": Differs(
        "as Java's standalone worker; no rebalance is underway", 404, "Task src-0 not found"
    ),
    "create_failing_at_worker": Differs(
        "a client setting out of range is reported at once; in Java its tasks fail", 400
    ),
    "cf_status": Differs(_REFUSED, 404),
    "delete_cf": Differs(_REFUSED, 404),
    **dict.fromkeys(
        (
            "plugin_config_File",
            "plugin_config_org.apache.kafka.common.config.provider.FileConfigProvider",
            "plugin_config_org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy",
        ),
        Differs("config providers and override policies are no plugins here, so they are not found", 404),
    ),
    **dict.fromkeys(
        (
            "plugin_config_org.apache.kafka.connect.transforms.Cast$Value",
            "validate_transforms",
            "validate_transforms_bad",
        ),
        Differs("Cast has field.syntax.version too", body=ANY),
    ),
    "validate_overrides_sink": Differs(
        "an override that is no number is an error of that setting; Java says 500", 200, body=ANY
    ),
    **dict.fromkeys(
        ("loggers", "loggers_slash", "loggers_after"), Differs("the loggers are those of Python modules", body=ANY)
    ),
    "logger_known": Differs("the loggers are those of Python modules", 404),
    "logger_put_root": Differs("the loggers are those of Python modules", body=ANY),
    "no_content_type_put": Differs("an empty Content-Type is like none; Java says 400", 415, body=ANY),
    "metrics_404": Differs("metrics are served for Prometheus", 200, body=ANY),
    "openapi_404": Differs("the OpenAPI document is served", 200, body=ANY),
}

# -- golden/rest/transcript.json and variants.json: workers of one cluster, and what they ask of each other ------------

WORKERS: dict[str, Differs] = {
    "internal_tasks_bad_json": Differs("the signature is looked at before the body is read; Java says 500", 403),
}
