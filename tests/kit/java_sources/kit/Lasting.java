package kit;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.LoggerFactory;

/** A source task that writes its start, its waits and its stop to the file `journal`; it waits in poll() if it is to. */
public final class Lasting extends SourceTask {
    private Map<String, String> config;
    private volatile boolean isStopped;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
        note("start");
        LoggerFactory.getLogger(Lasting.class).info("starts {}", config.get("name"));
    }

    /** With `waits=deaf` only stop() ends it, with `waits=forever` nothing does. */
    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        String waits = config.getOrDefault("waits", "no");
        if (!waits.equals("no")) note("wait");
        if (waits.equals("until interrupted")) Thread.sleep(Long.MAX_VALUE);
        while (waits.equals("forever") || (waits.equals("deaf") && !isStopped)) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                continue; // as plugins that do not listen
            }
        }
        return List.of(new SourceRecord(Map.of(), Map.of("next", 1L), "t", Schema.STRING_SCHEMA, config.get("name")));
    }

    @Override
    public void stop() {
        isStopped = true;
        note("stop");
    }

    private void note(String what) {
        try {
            Files.writeString(Path.of(config.get("journal")), what + " " + config.get("name") + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new ConnectException(e);
        }
    }
}
