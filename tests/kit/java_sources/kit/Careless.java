package kit;

import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.logging.LogFactory;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.logging.log4j.LogManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tasks that do to the JVM around them what others in it must not feel. */
public final class Careless {
    private static final Logger LOG = LoggerFactory.getLogger(Careless.class);

    private Careless() {}

    /** Does what the texts of its records say, such as `say hello`. */
    public static class Sink extends SinkTask {
        private volatile long puts;
        private volatile boolean commitsNowhere;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {}

        @Override
        public void put(Collection<SinkRecord> records) {
            puts++;
            for (SinkRecord record : records) {
                String[] words = ((String) record.value()).split(" ", 2);
                obey(record, words[0], words.length < 2 ? "" : words[1]);
            }
        }

        private void obey(SinkRecord record, String what, String rest) {
            switch (what) {
                case "say": LOG.info(rest); break;
                case "log4j": log4j(rest); break;
                case "commons": LogFactory.getLog(Careless.class).warn(rest); break;
                case "jdk": jdk(rest); break;
                case "print": System.out.println(rest); break;
                case "interrupt": Thread.currentThread().interrupt(); break;
                case "flood": interrupted(() -> flood(Integer.parseInt(rest))); break;
                case "exit": System.exit(7); break;
                case "halt": Runtime.getRuntime().halt(8); break;
                case "throw-beside": interrupted(() -> { throw new ConnectException(rest); }); break;
                case "cut": cut(); break;
                case "load": load(rest); break;
                case "load-beside": loadBeside(rest); break;
                case "gauge": gauge("puts", () -> puts); break;
                case "gauge-bad": gauge("bad", () -> new Missing().pass(null)); break;
                case "rewind-nowhere": context.offset(Collections.singletonMap(new TopicPartition(record.topic(), 0), null)); break;
                case "commit-nowhere": commitsNowhere = true; break;
                case "report": report(record); break;
                case "report-made": report(made(record)); break;
                default: throw new ConnectException("It does not do " + what);
            }
        }

        @Override
        public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            if (commitsNowhere) offsets.put(null, new OffsetAndMetadata(7));
            return offsets;
        }

        private void log4j(String text) {
            LogManager.getLogger(Careless.class).debug("{} for the curious", text);
            LogManager.getLogger(Careless.class).warn(text, new DataException("of log4j"));
        }

        private void jdk(String text) {
            java.util.logging.Logger logger = java.util.logging.Logger.getLogger(Careless.class.getName());
            logger.fine(text + " for the curious");
            logger.log(java.util.logging.Level.SEVERE, "{0} again", text);
        }

        private void gauge(String name, Supplier<?> value) {
            PluginMetrics metrics = context.pluginMetrics();
            Gauge<Object> gauge = (config, now) -> value.get();
            metrics.addMetric(metrics.metricName(name, "", new LinkedHashMap<>()), gauge);
        }

        private void report(SinkRecord record) {
            context.errantRecordReporter().report(record, new DataException("no"));
        }

        /** A record of its own, of the same place. */
        private static SinkRecord made(SinkRecord record) {
            SinkRecord made = new SinkRecord(record.topic(), record.kafkaPartition(), Schema.STRING_SCHEMA, "key",
                    Schema.STRING_SCHEMA, "made of " + record.value(), record.kafkaOffset(), 1234L, TimestampType.CREATE_TIME);
            made.headers().addString("header", "text");
            return made;
        }

        @Override
        public void stop() {}
    }

    /** The records good, bad and good again; it cannot take in that the bad one is in Kafka. */
    public static class Source extends SourceTask {
        private boolean hasPolled;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {}

        @Override
        public List<SourceRecord> poll() {
            if (hasPolled) return null;
            hasPolled = true;
            return Stream.of("good", "bad", "good again").map(Source::record).collect(Collectors.toList());
        }

        private static SourceRecord record(String value) {
            return new SourceRecord(Map.of("of", "all"), Map.of("at", value), "t", Schema.STRING_SCHEMA, value);
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            if (record.value().equals("bad")) throw new ConnectException("no such message any more");
            LOG.info("committed {}", record.value());
        }

        @Override
        public void stop() {
            LOG.info("stopped");
        }
    }

    /** What a class of a plugin may do as it is made: it waits for a thread that asks for the same class. */
    public static class Asks {
        private static final AtomicBoolean IS_ASKED = new AtomicBoolean();

        public Asks() throws InterruptedException {
            if (IS_ASKED.compareAndSet(false, true)) say(Asks.class.getName(), loaded(Asks.class.getName()));
        }
    }

    private static void load(String name) {
        try {
            Class.forName(name, true, above());
        } catch (ClassNotFoundException e) {
            throw new ConnectException(e);
        }
    }

    /** Loads a class on another thread while this one has the loader above all folders, as the JVM may have it. */
    private static void loadBeside(String name) {
        try {
            synchronized (above()) {
                say(name, loaded(name));
            }
        } catch (InterruptedException e) {
            throw new ConnectException(e);
        }
    }

    private static ClassLoader above() {
        return Careless.class.getClassLoader().getParent();
    }

    /** Whether another thread has a class after a while. */
    private static boolean loaded(String name) throws InterruptedException {
        Thread thread = new Thread(() -> load(name));
        thread.setDaemon(true);
        thread.start();
        thread.join(5000);
        return !thread.isAlive();
    }

    private static void say(String name, boolean isLoaded) {
        LOG.info("{} is {}", name, isLoaded ? "loaded" : "waited for");
    }

    private static void flood(int lines) {
        for (int i = 0; i < lines; i++) LOG.info("line {}", i);
    }

    /** On a thread of its own, as that of a pool which is shut down: its flag is set all the time. */
    private static void interrupted(Runnable action) {
        Thread thread = new Thread(() -> {
            Thread.currentThread().interrupt();
            action.run();
            if (!Thread.currentThread().isInterrupted()) LOG.info("the flag is gone");
        });
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new ConnectException(e);
        }
    }

    /** Interrupts the thread that reads what the worker says to the whole JVM, which closes that connection. */
    private static void cut() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("kconnect-control")) thread.interrupt();
        }
    }
}
