package kit;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.MDC;

/** A sink that reaches behind Connect's API for what its records name, and writes down what it finds. */
public class Reaching extends SinkConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return ReachingTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("journal", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "File.");
    }

    @Override
    public String version() {
        return "1.0.0";
    }

    public static class ReachingTask extends SinkTask {
        private Journal journal;
        private Consumer<byte[], byte[]> consumer;

        @Override
        public void start(Map<String, String> props) {
            journal = Journal.of(props, "task");
            consumer = consumer();
        }

        @SuppressWarnings("unchecked")
        private Consumer<byte[], byte[]> consumer() {
            try {
                Field field = Class.forName("org.apache.kafka.connect.runtime.WorkerSinkTaskContext").getDeclaredField("consumer");
                field.setAccessible(true);
                return (Consumer<byte[], byte[]>) field.get(context);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            journal.add("open " + new TreeSet<>(names(partitions)) + " of " + new TreeSet<>(names(consumer.assignment())) + " in group "
                    + consumer.groupMetadata().groupId());
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                String question = String.valueOf(record.value());
                TopicPartition place = new TopicPartition(record.topic(), record.kafkaPartition());
                String answer;
                try {
                    answer = answer(question, place, records);
                } catch (Exception e) {
                    answer = e.getClass().getName() + ": " + e.getMessage();
                }
                journal.add(question + ": " + answer);
            }
        }

        private String answer(String question, TopicPartition place, Collection<SinkRecord> records) throws Exception {
            return switch (question) {
                case "context" -> context.getClass().getName();
                case "command" -> command();
                case "thread" -> Thread.currentThread().getName();
                case "loader" -> String.valueOf(Thread.currentThread().getContextClassLoader() == getClass().getClassLoader());
                case "mdc" -> MDC.get("connector.context");
                case "member" -> member();
                case "subscription" -> consumer.subscription().size() + " " + consumer.subscription().contains(place.topic());
                case "position" -> String.valueOf(consumer.position(place) == last(records, place) + 1);
                case "elsewhere" -> String.valueOf(consumer.position(new TopicPartition(place.topic(), 99)));
                case "committed" -> consumer.committed(Set.of(new TopicPartition(place.topic(), 1))).values().toString();
                case "ends" -> ends(place);
                case "times" -> consumer.offsetsForTimes(Map.of(place, 0L), Duration.ofSeconds(10)).get(place).offset() + " "
                        + consumer.offsetsForTimes(Map.of(place, Long.MAX_VALUE)).get(place);
                case "paused" -> {
                    List<TopicPartition> one = List.of(new TopicPartition(place.topic(), 1));
                    consumer.pause(one);
                    String paused = names(consumer.paused()).toString();
                    consumer.resume(one);
                    yield paused + " " + consumer.paused();
                }
                case "commit" -> {
                    consumer.commitSync();
                    yield "done";
                }
                default -> "?";
            };
        }

        private static String command() throws Exception {
            String[] words = System.getProperty("sun.java.command").split(" ");
            Properties read = new Properties();
            try (InputStream file = Files.newInputStream(Path.of(words[1]))) {
                read.load(file);
            }
            return words[0] + " " + read.containsKey("bootstrap.servers");
        }

        /** Whether the broker knows it as the member that has the partitions. */
        private String member() throws Exception {
            ConsumerGroupMetadata reported = consumer.groupMetadata();
            String servers = context.configs().get("servers");
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                var group = admin.describeConsumerGroups(List.of(reported.groupId())).all().get().get(reported.groupId());
                var member = group.members().iterator().next();
                return reported.groupId() + " " + (reported.generationId() > 0) + " " + member.consumerId().equals(reported.memberId()) + " "
                        + reported.groupInstanceId();
            }
        }

        private String ends(TopicPartition place) {
            List<TopicPartition> both = List.of(place, new TopicPartition(place.topic(), 1));
            return new TreeMap<>(byName(consumer.beginningOffsets(both))) + " " + new TreeMap<>(byName(consumer.endOffsets(both)));
        }

        private static Map<String, Long> byName(Map<TopicPartition, Long> given) {
            Map<String, Long> made = new TreeMap<>();
            given.forEach((place, offset) -> made.put("p" + place.partition(), offset));
            return made;
        }

        private static long last(Collection<SinkRecord> records, TopicPartition place) {
            long found = -1;
            for (SinkRecord record : records) {
                if (record.topic().equals(place.topic()) && record.kafkaPartition() == place.partition()) found = record.kafkaOffset();
            }
            return found;
        }

        private static List<String> names(Collection<TopicPartition> places) {
            List<String> made = new ArrayList<>();
            places.forEach(place -> made.add("p" + place.partition()));
            return made;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1.0.0";
        }
    }
}
