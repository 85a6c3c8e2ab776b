"""The histories of several workers as one."""

from kconnect.model import BatchShare, TaskId
from kconnect.runtime.metrics.history_sum import sum_of_histories, sum_of_overviews, sum_of_tasks, with_moves
from kconnect.runtime.metrics.sensors import Moves


def of_connector(worker, times, **tasks):
    return {
        "worker": worker,
        "every_ms": 10,
        "times": times,
        "tasks": [
            {"connector": "orders", "task": int(name[1:]), "series": {"lag": values}} for name, values in tasks.items()
        ],
        "slots": [{"slot": 0, "series": {"cpu_percent": [1.0] * len(times)}}],
        "left_out": 0,
    }


def test_a_task_that_moved_has_one_series_and_gaps_where_nobody_ran_it():
    first = of_connector("a", [10, 20, 30, 40], t0=[1.0, 2.0, None, None], t1=[5.0, 5.0, 5.0, 5.0])
    second = of_connector("b", [20, 30, 40, 50], t0=[None, None, 4.0, 5.0])
    found = sum_of_histories([first, second])
    assert found["times"] == [20, 30, 40, 50]
    assert [(task["task"], task["series"]["lag"]) for task in found["tasks"]] == [
        (0, [2.0, None, 4.0, 5.0]),
        (1, [5.0, 5.0, 5.0, None]),
    ]
    assert [(slot["worker"], slot["series"]["cpu_percent"]) for slot in found["slots"]] == [
        ("a", [1.0, 1.0, 1.0, None]),
        ("b", [1.0, 1.0, 1.0, 1.0]),
    ]
    assert sum_of_tasks(found["tasks"], "lag", "sum") == [7.0, 5.0, 9.0, 5.0]
    assert sum_of_tasks(found["tasks"], "lag", "most") == [5.0, 5.0, 5.0, 5.0]


def test_lines_of_a_connector_add_up_and_the_lag_is_the_newest():
    def overview(**line):
        return {"every_ms": 60, "times": [1, 2], "connectors": {"orders": line}}

    first = overview(
        records_per_s=[1.0, 2.0], now_per_s=3.0, lag=7.0, errors=1.0, restarts=0.0, tasks=[{"task": 1, "records": 9}]
    )
    second = overview(
        records_per_s=[10.0, 20.0], now_per_s=1.0, lag=5.0, errors=1.0, restarts=2.0, tasks=[{"task": 0, "records": 4}]
    )
    assert sum_of_overviews([first, second])["connectors"] == {
        "orders": {
            "records_per_s": [11.0, 22.0],
            "now_per_s": 4.0,
            "lag": 7.0,
            "lag_at_ms": None,
            "errors": 2.0,
            "restarts": 2.0,
            "tasks": [{"task": 0, "records": 4}, {"task": 1, "records": 9}],
        }
    }, "the largest where nobody says when"
    first["connectors"]["orders"]["lag_at_ms"], second["connectors"]["orders"]["lag_at_ms"] = 10, 11
    for documents in ([first, second], [second, first]):
        line = sum_of_overviews(documents)["connectors"]["orders"]
        assert (line["lag"], line["lag_at_ms"]) == (5.0, 11)


def test_what_tasks_move_now_is_added_to_the_last_hour_also_of_a_connector_without_a_sample_yet():
    hour = {"every_ms": 60, "times": [1], "connectors": {"old": {"records_per_s": [5.0], "lag": 3.0, "errors": 1.0}}}
    forms = BatchShare(8, 1, "member a is number and text")
    moves = {TaskId("new", 1): Moves(2.5, 10, 1, forms), TaskId("new", 0): Moves(1.0, 4, 0)}
    found = with_moves(hour, moves)["connectors"]
    assert (found["old"]["now_per_s"], found["old"]["tasks"], found["old"]["lag"]) == (0.0, [], 3.0)
    assert (found["new"]["now_per_s"], found["new"]["records_per_s"], found["new"]["lag"]) == (3.5, [0.0], None)
    assert found["new"]["tasks"] == [
        {"task": 0, "records_per_s": 1.0, "records": 4, "errors": 0, "forms": None},
        {"task": 1, "records_per_s": 2.5, "records": 10, "errors": 1, "forms": forms.to_json()},
    ]
    assert "now_per_s" not in hour["connectors"]["old"], "the hour's lines are shared"


def test_a_worker_without_a_sample_yet_adds_nothing():
    empty = {"every_ms": 10, "times": [], "tasks": [], "slots": [], "left_out": 0}
    found = sum_of_histories([empty, of_connector("b", [10], t0=[1.0])])
    assert (found["times"], found["tasks"][0]["series"]["lag"]) == ([10], [1.0])
    assert sum_of_histories([empty])["times"] == []


def test_mbeans_of_a_task_that_moved_have_the_value_of_where_it_is_now():
    first, second = (of_connector(name, [10, 20], t0=[1.0, 2.0]) for name in "ab")
    first["tasks"][0]["mbeans"] = [{"name": "m", "labels": {"x": "1"}, "value": None, "series": [3.0, None]}]
    second["tasks"][0]["mbeans"] = [{"name": "m", "labels": {"x": "1"}, "value": 4, "series": [None, 4.0]}]
    (task,) = sum_of_histories([first, second])["tasks"]
    assert task["mbeans"] == [{"name": "m", "labels": {"x": "1"}, "value": 4, "series": [3.0, 4.0]}]
