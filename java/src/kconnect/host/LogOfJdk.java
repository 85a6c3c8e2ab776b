package kconnect.host;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/**
 * Has lines of java.util.logging, as Google's clients write them, go to Python, from the levels that Python gave. The JDK
 * makes it at the first use. Differs: there, as in Java Connect, it prints to the standard error, two lines each.
 */
public final class LogOfJdk {
    private static final String SETTING = "java.util.logging.config.";

    public LogOfJdk() throws IOException {
        byte[] config = ("handlers=" + Lines.class.getName()).getBytes(StandardCharsets.ISO_8859_1);
        LogManager.getLogManager().readConfiguration(new ByteArrayInputStream(config));
    }

    /** Names this to the JDK, unless the options of the JVM name something else. */
    static void offer() {
        if (System.getProperty(SETTING + "file") == null) {
            System.getProperties().putIfAbsent(SETTING + "class", LogOfJdk.class.getName());
        }
    }

    public static final class Lines extends Handler {
        private static final Formatter TEXT = new SimpleFormatter();
        private Map<String, Logger> set = Map.of(); // the JDK forgets loggers that nobody holds

        public Lines() {
            Log.onLevels(this::setLevels);
        }

        private void setLevels(Map<String, Integer> levels) {
            Map<String, Logger> now = new HashMap<>();
            levels.forEach((name, level) -> now.put(name, Logger.getLogger(name.equals("root") ? "" : name)));
            set.values().forEach(logger -> logger.setLevel(null));
            now.forEach((name, logger) -> logger.setLevel(level(levels.get(name))));
            set = now;
        }

        @Override
        public void publish(LogRecord line) {
            String name = String.valueOf(line.getLoggerName());
            Log.write(name, number(line.getLevel()), TEXT.formatMessage(line), line.getThrown());
        }

        @Override
        public void flush() {
            // each line is written at once
        }

        @Override
        public void close() {
            // the connection is not its own
        }
    }

    /** Python's number of a level. */
    private static int number(Level level) {
        if (level.intValue() >= Level.SEVERE.intValue()) return Log.ERROR;
        if (level.intValue() >= Level.WARNING.intValue()) return Log.WARN;
        if (level.intValue() >= Level.INFO.intValue()) return Log.INFO;
        return level.intValue() >= Level.FINE.intValue() ? Log.DEBUG : Log.TRACE;
    }

    /** The level of Python's number. */
    private static Level level(int number) {
        if (number > Log.FATAL) return Level.OFF;
        if (number >= Log.ERROR) return Level.SEVERE;
        if (number >= Log.WARN) return Level.WARNING;
        if (number >= Log.INFO) return Level.INFO;
        return number >= Log.DEBUG ? Level.FINE : Level.ALL;
    }
}
