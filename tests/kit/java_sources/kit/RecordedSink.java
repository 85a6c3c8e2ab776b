package kit;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** A sink that writes down what the runtime calls, and does what a file tells it. */
public class RecordedSink extends SinkConnector {
    private final List<String> early = new ArrayList<>(); // before a configuration tells where the journal is
    private Map<String, String> config;
    private Journal journal;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define(Journal.SETTING, ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where it writes.")
                .define("round", ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "What a change of it changes.");
    }

    @Override
    public Config validate(Map<String, String> given) {
        Journal.of(given, "questions").add("validate", given);
        return super.validate(given);
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<TopicPartition, Long> offsets) {
        Map<String, Object> reported = new TreeMap<>();
        offsets.forEach((place, offset) -> reported.put(String.valueOf(place), offset));
        Journal.of(given, "questions").add("alterOffsets", given, reported);
        return true;
    }

    @Override
    public void initialize(ConnectorContext context) {
        super.initialize(context);
        early.add("initialize");
    }

    @Override
    public void initialize(ConnectorContext context, List<Map<String, String>> configs) {
        super.initialize(context, configs);
        early.add("initialize with task configs " + configs);
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
        journal = Journal.of(given, "connector");
        early.forEach(call -> journal.add(call));
        early.clear();
        journal.add("start", given);
    }

    @Override
    public Class<? extends Task> taskClass() {
        journal.add("taskClass");
        return RecordedTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        journal.add("taskConfigs", most);
        List<Map<String, String>> made = new ArrayList<>();
        for (int i = 0; i < most; i++) {
            Map<String, String> one = new TreeMap<>(config);
            one.put("id", String.valueOf(i));
            made.add(one);
        }
        return made;
    }

    @Override
    public void stop() {
        journal.add("stop");
    }

    public static class RecordedTask extends SinkTask {
        private Journal journal;
        private boolean initialized;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void initialize(SinkTaskContext given) {
            super.initialize(given);
            initialized = true;
        }

        @Override
        public void start(Map<String, String> config) {
            journal = Journal.of(config, "task-" + config.get("id"));
            journal.add("start", initialized, config, context.configs().equals(config), sorted(context.assignment()));
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            journal.add("open", sorted(partitions), sorted(context.assignment()));
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            journal.add("close", sorted(partitions), sorted(context.assignment()));
        }

        private static Collection<String> sorted(Collection<TopicPartition> given) {
            Collection<String> made = new TreeSet<>();
            given.forEach(one -> made.add(one.toString()));
            return made;
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) return;
            Collection<String> reported = new TreeSet<>();
            records.forEach(one -> reported.add(one.kafkaPartition() + "/" + one.kafkaOffset() + "=" + one.value()));
            String wanted = journal.wanted()[0];
            journal.add("put", reported, wanted);
            if (wanted.equals("retry")) throw new RetriableException("Not yet");
            if (wanted.equals("fail")) throw new ConnectException("As it was reported");
        }

        @Override
        public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> given) {
            Map<String, Long> reported = new TreeMap<>();
            given.forEach((place, offset) -> reported.put(place.toString(), offset.offset()));
            journal.add("preCommit", reported);
            return super.preCommit(given);
        }

        @Override
        public void flush(Map<TopicPartition, OffsetAndMetadata> given) {
            journal.add("flush", given.size());
        }

        @Override
        public void stop() {
            journal.add("has", sorted(context.assignment()));
            journal.add("stop");
        }
    }
}
