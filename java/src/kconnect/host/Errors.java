package kconnect.host;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;

/** What Python is informed of something that was thrown. */
final class Errors {
    private Errors() {}

    static Map<String, Object> describe(Throwable thrown) {
        if (thrown instanceof StartFailure failure) {
            Map<String, Object> reported = describe(failure.getCause());
            reported.put("step", failure.step());
            return reported;
        }
        return Json.map(
                "class", thrown.getClass().getName(),
                "message", said(thrown, thrown::getMessage),
                "kind", kindOf(thrown),
                "trace", trace(thrown),
                "root", said(thrown, () -> root(thrown).toString()));
    }

    static String trace(Throwable thrown) {
        return said(thrown, () -> {
            StringWriter text = new StringWriter();
            thrown.printStackTrace(new PrintWriter(text));
            return text.toString();
        });
    }

    /** What an exception of a plugin's own says of itself; that may throw, or overflow the stack, too. */
    private static String said(Throwable thrown, Supplier<String> asked) {
        try {
            return asked.get();
        } catch (Throwable e) {
            return thrown.getClass().getName() + ", whose text cannot be read: it throws " + e.getClass().getName();
        }
    }

    static Throwable root(Throwable thrown) {
        Throwable found = thrown;
        for (int depth = 0; found.getCause() != null && depth < 50; depth++) found = found.getCause();
        return found;
    }

    private static String kindOf(Throwable thrown) {
        if (thrown instanceof RetriableException
                || thrown instanceof org.apache.kafka.common.errors.RetriableException) return "retriable";
        if (thrown instanceof ConfigException) return "config";
        if (thrown instanceof DataException) return "data";
        if (thrown instanceof LinkageError) return "linkage";
        if (thrown instanceof ClassNotFoundException) return "missing";
        return thrown instanceof Error ? "fatal" : "other";
    }
}
