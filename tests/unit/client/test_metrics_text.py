"""Samples out of the text of `/metrics`."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kconnect.client.answers import samples_of
from kconnect.runtime.metrics import Reading, prometheus_text
from kconnect.runtime.metrics.catalogue import CATALOGUE

_WRITTEN = next(
    metric for metric in CATALOGUE if metric.prometheus == "kafka_connect_source_task_metrics_source_record_write_total"
)


def test_only_the_metrics_that_are_asked_for_are_read():
    text = '# HELP a b\n# TYPE a counter\na 1\nab{x="1"} 2\nb{connector="o",task="0"} 3.5\nb_c 4\n'
    assert [tuple(sample) for sample in samples_of(text, ["a", "b"])] == [
        ("a", {}, 1.0),
        ("b", {"connector": "o", "task": "0"}, 3.5),
    ]


def test_what_is_no_number_is_left_out_and_nan_is_kept():
    found = list(samples_of("a NaN\na x\na +Inf\n", ["a"]))
    assert math.isnan(found[0].value)
    assert found[1].value == math.inf
    assert len(found) == 2


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_connectors_name_comes_back_as_it_was(name):
    text = prometheus_text([Reading(_WRITTEN, (name, "0"), 12)])
    (sample,) = samples_of(text, [_WRITTEN.prometheus])
    assert sample.labels == {"connector": name, "task": "0"}
    assert sample.value == 12
