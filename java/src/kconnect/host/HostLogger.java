package kconnect.host;

import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MarkerIgnoringBase;
import org.slf4j.helpers.MessageFormatter;

/** A logger whose lines go to Python, from the levels that Python gave. */
public final class HostLogger extends MarkerIgnoringBase {
    private static final long serialVersionUID = 1;

    private volatile int seen = -1;
    private volatile int from;

    public HostLogger(String name) {
        this.name = name;
    }

    /** Sinks ask for each record, so the level is looked up once after each change. */
    private boolean speaks(int level) {
        int now = Log.changes();
        if (seen != now) {
            from = Log.level(name);
            seen = now;
        }
        return level >= from;
    }

    private void write(int level, String message, Throwable thrown) {
        if (speaks(level)) Log.write(name, level, message, thrown);
    }

    private void write(int level, FormattingTuple formed) {
        Log.write(name, level, formed.getMessage(), formed.getThrowable());
    }

    @Override
    public boolean isTraceEnabled() {
        return speaks(5);
    }

    @Override
    public void trace(String message) {
        write(5, message, null);
    }

    @Override
    public void trace(String format, Object one) {
        if (speaks(5)) write(5, MessageFormatter.format(format, one));
    }

    @Override
    public void trace(String format, Object one, Object two) {
        if (speaks(5)) write(5, MessageFormatter.format(format, one, two));
    }

    @Override
    public void trace(String format, Object... arguments) {
        if (speaks(5)) write(5, MessageFormatter.arrayFormat(format, arguments));
    }

    @Override
    public void trace(String message, Throwable thrown) {
        write(5, message, thrown);
    }

    @Override
    public boolean isDebugEnabled() {
        return speaks(10);
    }

    @Override
    public void debug(String message) {
        write(10, message, null);
    }

    @Override
    public void debug(String format, Object one) {
        if (speaks(10)) write(10, MessageFormatter.format(format, one));
    }

    @Override
    public void debug(String format, Object one, Object two) {
        if (speaks(10)) write(10, MessageFormatter.format(format, one, two));
    }

    @Override
    public void debug(String format, Object... arguments) {
        if (speaks(10)) write(10, MessageFormatter.arrayFormat(format, arguments));
    }

    @Override
    public void debug(String message, Throwable thrown) {
        write(10, message, thrown);
    }

    @Override
    public boolean isInfoEnabled() {
        return speaks(20);
    }

    @Override
    public void info(String message) {
        write(20, message, null);
    }

    @Override
    public void info(String format, Object one) {
        if (speaks(20)) write(20, MessageFormatter.format(format, one));
    }

    @Override
    public void info(String format, Object one, Object two) {
        if (speaks(20)) write(20, MessageFormatter.format(format, one, two));
    }

    @Override
    public void info(String format, Object... arguments) {
        if (speaks(20)) write(20, MessageFormatter.arrayFormat(format, arguments));
    }

    @Override
    public void info(String message, Throwable thrown) {
        write(20, message, thrown);
    }

    @Override
    public boolean isWarnEnabled() {
        return speaks(30);
    }

    @Override
    public void warn(String message) {
        write(30, message, null);
    }

    @Override
    public void warn(String format, Object one) {
        if (speaks(30)) write(30, MessageFormatter.format(format, one));
    }

    @Override
    public void warn(String format, Object one, Object two) {
        if (speaks(30)) write(30, MessageFormatter.format(format, one, two));
    }

    @Override
    public void warn(String format, Object... arguments) {
        if (speaks(30)) write(30, MessageFormatter.arrayFormat(format, arguments));
    }

    @Override
    public void warn(String message, Throwable thrown) {
        write(30, message, thrown);
    }

    @Override
    public boolean isErrorEnabled() {
        return speaks(40);
    }

    @Override
    public void error(String message) {
        write(40, message, null);
    }

    @Override
    public void error(String format, Object one) {
        if (speaks(40)) write(40, MessageFormatter.format(format, one));
    }

    @Override
    public void error(String format, Object one, Object two) {
        if (speaks(40)) write(40, MessageFormatter.format(format, one, two));
    }

    @Override
    public void error(String format, Object... arguments) {
        if (speaks(40)) write(40, MessageFormatter.arrayFormat(format, arguments));
    }

    @Override
    public void error(String message, Throwable thrown) {
        write(40, message, thrown);
    }
}
