package kconnect.host;

import java.net.URI;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.Marker;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.AbstractConfiguration;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.config.ConfigurationFactory;
import org.apache.logging.log4j.core.config.ConfigurationSource;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.logging.log4j.message.Message;

/**
 * Has lines of log4j's own API, and of Commons Logging, which writes there, go to Python, from the levels that Python gave.
 * Log4j makes it when the first plugin asks for a logger of it; its own configuration prints errors alone. It is made of
 * each log4j that a plugin's folder has.
 */
public final class LogOfLog4j extends ConfigurationFactory {
    /** Names this to log4j, unless the options of the JVM name something else. */
    static void offer() {
        System.getProperties().putIfAbsent("log4j2.configurationFactory", LogOfLog4j.class.getName());
    }

    @Override
    protected String[] getSupportedTypes() {
        return new String[] {"*"};
    }

    @Override
    public Configuration getConfiguration(LoggerContext context, ConfigurationSource source) {
        try {
            return new ToPython(context);
        } catch (LinkageError e) {
            return null; // a plugin's own log4j, of before 2.11.2: it prints its errors, as without this
        }
    }

    @Override
    public Configuration getConfiguration(LoggerContext context, String name, URI location) {
        return getConfiguration(context, ConfigurationSource.NULL_SOURCE);
    }

    private static final class ToPython extends AbstractConfiguration {
        ToPython(LoggerContext context) {
            super(context, ConfigurationSource.NULL_SOURCE);
            isShutdownHookEnabled = false; // a plugin may write as the JVM ends
            Lines lines = new Lines();
            lines.start();
            addAppender(lines);
            getRootLogger().addAppender(lines, null, null);
            getRootLogger().setLevel(Level.ALL);
            addFilter(new Levels());
        }

        @Override
        protected void doConfigure() {
            // there is no file
        }
    }

    private static final class Lines extends AbstractAppender {
        Lines() {
            super("kconnect", null, null, true, Property.EMPTY_ARRAY);
        }

        @Override
        public void append(LogEvent event) {
            Log.write(event.getLoggerName(), number(event.getLevel()), event.getMessage().getFormattedMessage(),
                    event.getThrown());
        }
    }

    /** Asked before a line is made. What a plugin sets itself for its loggers counts as well. */
    private static final class Levels extends AbstractFilter {
        private static Result of(String logger, Level level) {
            return number(level) < Log.level(logger) ? Result.DENY : Result.NEUTRAL;
        }

        @Override
        public Result filter(LogEvent event) {
            return of(event.getLoggerName(), event.getLevel());
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, Message message, Throwable thrown) {
            return of(logger.getName(), level);
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, Object message, Throwable thrown) {
            return of(logger.getName(), level);
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, String message, Object... arguments) {
            return of(logger.getName(), level);
        }
    }

    /** Python's number of a level, or of the one that is next above. */
    private static int number(Level level) {
        int here = level.intLevel();
        if (here <= Level.FATAL.intLevel()) return Log.FATAL;
        if (here <= Level.ERROR.intLevel()) return Log.ERROR;
        if (here <= Level.WARN.intLevel()) return Log.WARN;
        if (here <= Level.INFO.intLevel()) return Log.INFO;
        return here <= Level.DEBUG.intLevel() ? Log.DEBUG : Log.TRACE;
    }
}
