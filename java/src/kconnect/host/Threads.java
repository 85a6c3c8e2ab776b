package kconnect.host;

import java.util.LinkedHashMap;
import java.util.Map;

/** The stacks of all threads, for `connect` to show what a task hangs in. */
final class Threads {
    private Threads() {}

    static Map<String, Object> dump() {
        Map<String, Object> found = new LinkedHashMap<>();
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            StringBuilder text = new StringBuilder();
            for (StackTraceElement element : stack) text.append("at ").append(element).append('\n');
            found.put(thread.getName(), text.toString());
        });
        return found;
    }
}
