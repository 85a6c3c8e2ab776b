"""Several connectors at once, and labels as filters: what is asked, left out, done, and said of what failed."""

from __future__ import annotations

import re
from html import unescape

import pytest

from kconnect.admin.cluster.activity import Activity
from kconnect.admin.console.connector_filter import Filter, label_chips
from kconnect.admin.console.connector_rows import connector_rows
from kconnect.admin.console.pages.bulk import make_all
from kconnect.errors import BadRequestError, ConfigError, UnreachableError
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TargetState
from kit.memory_herder import MemoryHerder, file_source


@pytest.fixture
def herder():
    herder = MemoryHerder()
    for name, labels in {"a": "team=x,env=prod", "b": "team=x", "c": "team=y,env=prod", "d": ""}.items():
        herder.put_connector(name, {**file_source(), "kconnect.labels": labels}, replace=True)
    return herder


def names(html):
    return re.findall(r'<a href="/ui/connectors/([^"]+)"', html)


def fields(html):
    return re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', html)


def target(herder, name):
    return str(herder.connector_status(name).connector.state)


def chosen(*found):
    return [("name", name) for name in found]


def test_each_connector_is_asked_about_and_then_all_are_paused(console, herder):
    asked = console.post("/ui/do/pause/review", chosen("a", "b"), **{"hx-request": "true"})
    html = asked.body.decode()
    assert "Pause 2 connectors?" in html
    assert re.findall(r'<th scope="row">(\w)</th><td>([^<]+)</td><td>([^<]+)</td>', html) == [
        ("a", "RUNNING, tasks: 1 RUNNING", "PAUSED, tasks: 1 PAUSED"),
        ("b", "RUNNING, tasks: 1 RUNNING", "PAUSED, tasks: 1 PAUSED"),
    ]
    assert {target(herder, name) for name in "ab"} == {"RUNNING"}, "nothing is done before somebody says so"
    done = console.post("/ui/do/pause", fields(html))
    assert done.status == 303
    assert unescape(done.headers["location"]) == "/ui?note=paused%20a%3B%20paused%20b"
    assert [target(herder, name) for name in "abcd"] == ["PAUSED", "PAUSED", "RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [("resume", TargetState.PAUSED, "RUNNING"), ("stop", TargetState.STARTED, "STOPPED")],
)
def test_all_are_brought_to_one_state(console, herder, verb, before, after):
    for name in "ac":
        herder.set_target_state(name, before)
    html = console.post(f"/ui/do/{verb}/review", chosen("a", "c")).body.decode()
    console.post(f"/ui/do/{verb}", fields(html))
    assert [target(herder, name) for name in "ac"] == [after, after]


def test_what_failed_of_several_is_restarted_and_the_rest_is_left_out(console, herder):
    herder.traces = {"a": "java.lang.X: one", "c": "java.lang.X: two"}
    html = console.post("/ui/do/restart-failed/review", chosen("a", "b", "c")).body.decode()
    assert "Left out, as it does not apply: b (RUNNING)." in html
    console.post("/ui/do/restart-failed", fields(html))
    assert herder.traces == {}


def test_connectors_to_which_it_does_not_apply_are_named_and_left_out(console, herder):
    herder.set_target_state("b", TargetState.STOPPED)
    html = console.post("/ui/do/pause/review", chosen("a", "b", "gone")).body.decode()
    assert "Pause 1 connector?" in html
    assert "Left out, as it does not apply: b (STOPPED), gone (gone)." in html
    assert [name for name, _ in fields(html)] == ["seen:a"]
    nothing = console.post("/ui/do/pause/review", chosen("b"))
    assert nothing.status == 400
    assert "Pause does not apply to b (STOPPED)" in nothing.body.decode()
    assert "none was chosen" in console.post("/ui/do/pause/review", []).body.decode()


def test_it_is_asked_again_once_one_of_them_has_changed(console, herder):
    html = console.post("/ui/do/pause/review", chosen("a", "b")).body.decode()
    herder.set_target_state("b", TargetState.STOPPED)
    again = console.post("/ui/do/pause", fields(html))
    assert again.status == 409
    assert "b is STOPPED now: look again." in again.body.decode()
    assert target(herder, "a") == "RUNNING"


def test_what_fails_is_named_with_its_reason_and_the_others_are_done(console, herder):
    html = console.post("/ui/do/pause/review", chosen("a", "b", "c")).body.decode()
    paused = herder.set_target_state

    def refusing(name, state):
        if name == "b":
            raise BadRequestError("b is a nuisance")
        paused(name, state)

    herder.set_target_state = refusing
    done = console.post("/ui/do/pause", fields(html), **{"hx-request": "true"}).body.decode()
    assert "Pause: 1 of 3 connectors failed" in done
    assert re.findall(r'<th scope="row">(\w)</th><td class="wrap">([^<]+)</td>', done) == [("b", "b is a nuisance")]
    assert [target(herder, name) for name in "abc"] == ["PAUSED", "RUNNING", "PAUSED"]
    assert console.post("/ui/do/resume", [("seen:a", "PAUSED")]).status == 303


class Away:
    """Changes of a cluster whose worker has just gone away."""

    def __init__(self):
        self.asked = []

    def pause(self, name):
        self.asked.append(name)
        raise UnreachableError("w does not answer")


def test_once_nobody_answers_the_others_are_not_waited_for():
    changes = Away()
    done, failed = make_all(changes, "pause", ["a", "b"])
    assert (done, changes.asked) == ([], ["a"])
    assert failed == [("a", "w does not answer"), ("b", "Not tried, as the cluster does not answer.")]


def test_an_unknown_action_and_delete_are_no_pages(console):
    assert console.post("/ui/do/delete/review", chosen("a")).status == 404
    assert console.post("/ui/do/delete", [("seen:a", "RUNNING")]).status == 404


def test_one_comes_back_to_the_connectors_that_were_filtered(console):
    filtered = [("q", "b"), ("state", ""), ("label", "team=x")]
    html = console.post("/ui/do/pause/review", [*chosen("b"), *filtered]).body.decode()
    assert 'href="/ui?q=b&amp;label=team%3Dx"' in html
    assert console.post("/ui/do/pause", fields(html)).headers["location"].startswith("/ui?q=b&label=team%3Dx&note=")


def test_labels_are_shown_in_rows_and_filter_them(console):
    html = console.page("/ui")
    assert re.findall(r'href="(/ui\?label=[^"]+)">(team=x|env=prod) <b>(\d)</b>', html) == [
        ("/ui?label=env%3Dprod", "env=prod", "2"),
        ("/ui?label=team%3Dx", "team=x", "2"),
    ]
    assert '<a class="label" href="/ui?label=team%3Dy">team=y</a>' in html
    assert names(console.page("/ui?label=team%3Dx")) == ["a", "b"]
    assert names(console.page("/ui?label=team%3Dx,env%3Dprod")) == ["a"]
    assert names(console.page("/ui?label=!team")) == ["d"]
    assert names(console.page("/ui?q=team%3Dy")) == ["c"], "the search finds labels too"
    assert 'name="label" value="team=x"' in console.page("/ui?label=team%3Dx"), "polling keeps the filter"
    refused = console.ask("GET", "/ui?label=%3D")
    assert refused.status == 400
    assert "names no label" in refused.body.decode()


def test_a_new_label_of_a_connector_that_the_console_changes_is_seen_at_once(console, herder):
    console.page("/ui")
    herder.put_connector("d", {**file_source(), "kconnect.labels": "team=z"}, replace=True)
    console._console._shared.forget()
    assert names(console.page("/ui?label=team%3Dz")) == ["d"]


def rows(*labels):
    statuses = {
        f"c{number}": ConnectorStatus(f"c{number}", ConnectorState(RunState.RUNNING, "w:1"), (), ConnectorType.SINK)
        for number, _ in enumerate(labels)
    }
    return connector_rows(statuses, dict[str, Activity](), {f"c{number}": each for number, each in enumerate(labels)})


def test_a_chip_adds_its_label_takes_the_place_of_another_value_or_goes_again():
    found = rows({"team": "x", "env": "prod"}, {"team": "y"}, None)
    chips, more = label_chips(found, Filter.of({"label": "team=x", "q": "c"}))
    assert [(chip.text, chip.count, chip.is_chosen, chip.url) for chip in chips] == [
        ("env=prod", 1, False, "/ui?q=c&label=team%3Dx%2Cenv%3Dprod"),
        ("team=x", 1, True, "/ui?q=c"),
        ("team=y", 1, False, "/ui?q=c&label=team%3Dy"),
    ]
    assert more == 0


def test_chips_of_many_labels_end_and_one_that_is_chosen_stays():
    found = rows(*({"id": f"{number:03d}"} for number in range(40)))
    chips, more = label_chips(found, Filter.of({"label": "id=039"}))
    assert (len(chips), more) == (25, 15)
    assert chips[-1].text == "id=039"


def test_labels_that_cannot_be_read_match_nothing():
    (row,) = rows(None)
    assert not Filter.of({"label": "!team"}).admits(row)
    with pytest.raises(ConfigError, match="not a selector"):
        Filter.of({"label": "a b"})
