package kit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;

/** What a runtime calls, a line each, in one file of each actor: a connector's objects, or one task. */
final class Journal {
    static final String SETTING = "journal";
    private final Path file;
    private final Path feed;
    private String last = "";

    private Journal(String base, String actor) {
        this.file = Path.of(base + "-" + actor);
        this.feed = Path.of(base + "-feed");
    }

    static Journal of(Map<String, String> config, String actor) {
        return new Journal(config.get(SETTING), actor);
    }

    /** A call with its arguments, and what came of it; the same line twice is one. */
    synchronized void add(String call, Object... arguments) {
        StringBuilder line = new StringBuilder(call);
        for (Object argument : arguments) {
            line.append(' ').append(argument instanceof Map<?, ?> map ? new TreeMap<>(map) : argument);
        }
        String text = line.toString().replace("\n", "\\n");
        if (text.equals(last)) return;
        last = text;
        try {
            Files.write(file, (last + "\n").getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What the test wants next: a word and perhaps a number. */
    String[] wanted() {
        try {
            return Files.exists(feed) ? Files.readString(feed).trim().split(" ") : new String[] {""};
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
