package kconnect.host;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;

/** Names who ends the JVM by System.exit, in a file beside its socket: the tasks of others end with it, and say why. */
final class Ending {
    private static final String FILE = "exit";

    private Ending() {}

    /** To be called by a hook of the JVM's end. `sessions`: whose threads are known. */
    static void note(Path folder, Collection<Session> sessions) {
        for (Map.Entry<Thread, StackTraceElement[]> one : Thread.getAllStackTraces().entrySet()) {
            StackTraceElement caller = caller(one.getValue());
            // A signal, or our own end, is nobody's fault
            if (caller == null || caller.getClassName().matches("(jdk\\.internal|kconnect\\.host)\\..*")) continue;
            try {
                Files.writeString(folder.resolve(FILE), name(one.getKey(), sessions) + " called System.exit at " + caller);
            } catch (IOException e) {
                return; // then it is not said
            }
        }
    }

    /** What has called System.exit or Runtime.exit in a stack; null where nothing has. */
    private static StackTraceElement caller(StackTraceElement[] stack) {
        boolean exits = false;
        for (StackTraceElement frame : stack) {
            exits |= frame.getClassName().equals("java.lang.Shutdown") && frame.getMethodName().equals("exit");
            if (exits && !frame.getClassName().startsWith("java.lang.")) return frame;
        }
        return null;
    }

    private static String name(Thread thread, Collection<Session> sessions) {
        for (Session session : sessions) if (session.thread() == thread) return session.who();
        return "the thread " + thread.getName();
    }
}
