package kconnect.host;

import java.util.Map;

/** A transformation, predicate or converter could not be made or configured: it is to blame, not the task it is of. */
final class StartFailure extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String plugin;
    private final String method;
    private final String place;

    StartFailure(String plugin, String method, String place, Throwable cause) {
        super(null, cause); // a message of its own would ask the cause for its text
        this.plugin = plugin;
        this.method = method;
        this.place = place;
    }

    Map<String, Object> step() {
        return Json.map("class", plugin, "method", method, "place", place);
    }
}
