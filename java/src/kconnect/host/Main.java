package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Hosts Java's plugins for one process of kconnect, which speaks over a Unix socket: one connection and one thread for
 * each plugin object that lives longer than a call. The first line of standard input says what it needs, and its end
 * that the process is gone: then this ends, too. That process may have others use it, each with a connection of its own
 * for events, whose end is theirs.
 */
public final class Main {
    private static final long AGAIN_MS = 100;

    private Main() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        InputStream input = new BufferedInputStream(System.in);
        JsonNode start = Json.read(line(input));
        PrintStream output = System.out;
        // Plugins look for the worker's properties in it, as Iceberg's sink does
        if (start.hasNonNull("command")) System.setProperty("sun.java.command", start.get("command").asText());
        LogOfLog4j.offer();
        LogOfJdk.offer();
        Host host = new Host(start);
        Path folder = Path.of(start.get("socket").asText()).getParent();
        endWith(input, folder, start.path("records").asBoolean());
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(start.get("socket").asText()));
            // Not before: what ends the start must be read in the process' own output
            System.setOut(host.owner().stream("stdout"));
            System.setErr(host.owner().stream("stderr"));
            Thread.setDefaultUncaughtExceptionHandler(Main::report);
            host.beans().start();
            output.println("ready");
            output.flush();
            serve(host, server);
        }
    }

    /** What ends a thread of a plugin's own, on that thread: as the JDK prints it, whose it is would not be said. */
    private static void report(Thread thread, Throwable thrown) {
        Log.write(Main.class.getName(), Log.ERROR, "Thread " + thread.getName() + " of a plugin ended with an error that nobody caught", thrown);
    }

    /** Serves without end: where plugins have used up all files or threads, those that run shall not end with this. */
    private static void serve(Host host, ServerSocketChannel server) throws IOException, InterruptedException {
        boolean isReported = false;
        while (true) {
            try {
                serve(host, server.accept());
                isReported = false;
            } catch (Throwable e) {
                if (!server.isOpen()) throw e;
                if (!isReported) Log.write(Main.class.getName(), Log.ERROR, "No plugin can be started now; will be retried", e);
                isReported = true;
                Thread.sleep(AGAIN_MS);
            }
        }
    }

    private static void serve(Host host, SocketChannel channel) throws IOException {
        try {
            Thread thread = new Thread(() -> new Session(host, new Wire(channel)).run(), "kconnect-session");
            thread.setDaemon(true);
            thread.start();
        } catch (Throwable e) {
            channel.close();
            throw e;
        }
    }

    /** Ends this process with its parent, whose folder for it nobody else may be left to delete. */
    private static void endWith(InputStream input, Path folder, boolean recordsClasses) {
        Thread thread = new Thread(() -> {
            try {
                while (input.read() >= 0) continue;
            } catch (IOException e) {
                // as its end: nobody is there to be informed
            }
            delete(folder);
            if (recordsClasses) System.exit(0); // halt() writes no archive
            Runtime.getRuntime().halt(0); // no hook of a plugin's delays it
        }, "kconnect-parent");
        thread.setDaemon(true);
        thread.start();
    }

    private static void delete(Path folder) {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) Files.deleteIfExists(file);
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            // the parent deletes it at the same time
        }
    }

    private static String line(InputStream input) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        for (int next = input.read(); next >= 0 && next != '\n'; next = input.read()) text.write(next);
        return text.toString(StandardCharsets.UTF_8);
    }
}
