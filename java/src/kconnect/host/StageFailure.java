package kconnect.host;

import java.util.Map;

/**
 * A transformation or converter failed on a record: Python decides whether to retry, to skip it, or to fail the task.
 * `place`: where the connector's settings name it, which tells a predicate from its transformation.
 */
final class StageFailure extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String stage;
    private final String plugin;
    private final String place;

    StageFailure(String stage, Object plugin, Throwable cause) {
        this(stage, plugin, cause, null);
    }

    StageFailure(String stage, Object plugin, Throwable cause, String place) {
        super(null, cause); // a message of its own would ask the cause for its text
        this.place = place;
        this.stage = stage;
        this.plugin = plugin == null ? null : plugin.getClass().getName();
    }

    Map<String, Object> describe(int row) {
        return Json.map("row", row, "stage", stage, "class", plugin, "place", place, "error", Errors.describe(getCause()));
    }
}
