package kconnect.host;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** Log lines for Python, which has the levels; those of Java's loggers are copied here, so that most lines cost a look. */
public final class Log {
    private static final Map<String, Integer> LEVELS = new ConcurrentHashMap<>();
    private static final Map<String, Integer> KNOWN = new ConcurrentHashMap<>();
    private static final ThreadLocal<Boolean> QUIET = new ThreadLocal<>();
    private static volatile Control control;
    private static volatile int changes;
    private static Consumer<Map<String, Integer>> listener = levels -> {}; // guarded by this class

    /** What stands between the line that logs and this. */
    private static final List<String> LOGGERS = List.of("kconnect.host.Log", "kconnect.host.HostLogger", "kconnect.host.Control",
            "org.slf4j.", "org.apache.log4j.", "org.apache.logging.", "org.apache.commons.logging.", "org.jboss.logging.",
            "java.util.logging.", "java.io.", "java.lang.", "sun.nio.cs.");
    private static final StackWalker WALKER = StackWalker.getInstance();

    private Log() {}

    private static boolean isLogger(StackWalker.StackFrame frame) {
        for (String known : LOGGERS) if (frame.getClassName().startsWith(known)) return true;
        return false;
    }

    /** Adds where the line comes from: of what logs it, not of a logger. */
    private static Map<String, Object> placed(Map<String, Object> event) {
        WALKER.walk(frames -> frames.filter(frame -> !isLogger(frame)).findFirst()).ifPresent(frame -> {
            event.put("file", frame.getFileName());
            event.put("line", frame.getLineNumber());
        });
        event.put("thread", Thread.currentThread().getName());
        return event;
    }

    static void open(Control given, Map<String, Integer> levels) {
        control = given;
        setLevels(levels);
    }

    static synchronized void setLevels(Map<String, Integer> levels) {
        LEVELS.clear();
        LEVELS.putAll(levels);
        KNOWN.clear();
        changes++;
        listener.accept(levels);
    }

    /** Gives levels to who keeps them itself, now and after each change. */
    static synchronized void onLevels(Consumer<Map<String, Integer>> given) {
        listener = given;
        given.accept(LEVELS);
    }

    /** How often levels have changed. */
    static int changes() {
        return changes;
    }

    /** The level from which a logger speaks, in Python's numbers: that of the nearest name above it. */
    public static int level(String logger) {
        return KNOWN.computeIfAbsent(logger, name -> {
            for (String above = name; !above.isEmpty(); above = above.substring(0, Math.max(0, above.lastIndexOf('.')))) {
                Integer found = LEVELS.get(above);
                if (found != null) return found;
            }
            return LEVELS.getOrDefault("root", INFO);
        });
    }

    /** Does something whose lines nobody wants. */
    static void quietly(Runnable action) {
        QUIET.set(true);
        try {
            action.run();
        } finally {
            QUIET.remove();
        }
    }

    /** Levels as Python numbers them. */
    static final int FATAL = 50;
    static final int ERROR = 40;
    static final int WARN = 30;
    static final int INFO = 20;
    static final int DEBUG = 10;
    static final int TRACE = 5;

    /** Writes a line; the session that it is of says whose it is. */
    public static void write(String logger, int level, String message, Throwable thrown) {
        write(Session.owner(), logger, level, message, thrown);
    }

    /** The same, of a session or of none. */
    static void write(Session session, String logger, int level, String message, Throwable thrown) {
        Control to = control;
        if (to == null || QUIET.get() != null) return;
        Map<String, Object> event = Json.map("e", "log", "logger", logger, "level", level, "message", message);
        if (session != null) to = session.address(event);
        if (thrown != null) event.put("trace", Errors.trace(thrown));
        to.tell(placed(event));
    }

    /** What a plugin printed, whose it is by the thread that ended the line. */
    static void printed(String stream, String line) {
        write("kconnect.java." + stream, INFO, line, null);
    }
}
