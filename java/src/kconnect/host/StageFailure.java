package kconnect.host;

import java.util.Map;

/** A transformation or converter failed: Python decides whether to retry, to skip the record, or to fail the task. */
final class StageFailure extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String stage;
    private final String plugin;

    StageFailure(String stage, Object plugin, RuntimeException cause) {
        super(cause);
        this.stage = stage;
        this.plugin = plugin == null ? null : plugin.getClass().getName();
    }

    Map<String, Object> describe(int row) {
        return Json.map("row", row, "stage", stage, "class", plugin, "error", Errors.describe(getCause()));
    }
}
