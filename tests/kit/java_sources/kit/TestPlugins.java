package kit;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.CumulativeCount;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.slf4j.LoggerFactory;

/** Plugins that behave, and plugins that do not. */
public class TestPlugins {
    /** Passes records on. */
    public static class Identity<R extends ConnectRecord<R>> implements Transformation<R> {
        @Override
        public R apply(R record) {
            return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                    record.valueSchema(), record.value(), record.timestamp());
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    /** Drops texts that it has seen, fails at those that begin with !, and sends the others to the topic of their first letter. */
    public static class Once<R extends ConnectRecord<R>> extends Identity<R> {
        private final java.util.Set<Object> seen = new java.util.HashSet<>();

        @Override
        public R apply(R record) {
            String text = (String) record.value();
            if (text.startsWith("!")) throw new IllegalArgumentException(text);
            if (!seen.add(text)) return null;
            return record.newRecord(text.substring(0, 1), record.kafkaPartition(), record.keySchema(), record.key(),
                    record.valueSchema(), text.endsWith("#") ? null : text, record.timestamp());
        }
    }

    /** True for texts that end with its setting `end`. It wants to be asked with the loader of its own classes. */
    public static class Ends<R extends ConnectRecord<R>> implements Predicate<R> {
        private String end;

        @Override
        public boolean test(R record) {
            if (Thread.currentThread().getContextClassLoader() != getClass().getClassLoader()) {
                throw new IllegalStateException("The context class loader is that of somebody else");
            }
            if ("odd".equals(record.value())) throw new IllegalStateException("It is odd");
            return String.valueOf(record.value()).endsWith(end);
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("end", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The end of a text.");
        }

        @Override
        public void configure(Map<String, ?> configs) {
            end = (String) configs.get("end");
        }

        @Override
        public void close() {}
    }

    /** Counts records in metrics of its own. */
    public static class Counted<R extends ConnectRecord<R>> extends Identity<R> implements Monitorable {
        private Sensor seen;

        @Override
        public void withPluginMetrics(PluginMetrics metrics) {
            seen = metrics.addSensor("seen");
            seen.add(metrics.metricName("seen-total", "Records that were seen.", ordered("kind", "any")), new CumulativeCount());
            seen.add(metrics.metricName("seen-rate", "Records a second.", ordered("kind", "any")), new Rate());
        }

        private static LinkedHashMap<String, String> ordered(String name, String value) {
            return new LinkedHashMap<>(Map.of(name, value));
        }

        @Override
        public R apply(R record) {
            seen.record();
            return record;
        }
    }

    /** Does what its setting `does` says to every record whose value is the text `bad`, or to each one. */
    public static class Misbehaves<R extends ConnectRecord<R>> extends Identity<R> {
        private String does;
        private int left;

        @Override
        public void configure(Map<String, ?> configs) {
            does = String.valueOf(configs.get("does"));
            if (does.equals("error at start")) throw new AssertionError("not so");
            if (does.equals("checked at start")) throw Misbehaves.<RuntimeException>undeclared(new java.io.IOException("undeclared"));
            left = Integer.parseInt(String.valueOf(configs.get("times") == null ? "1000000" : configs.get("times")));
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("does", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT_VALUE,
                            ConfigDef.ValidString.in("throw", "retry", "exit", "crash", "memory", "sleep", "missing", "mute", "half", "long", "checked",
                                    "error at start", "checked at start"),
                            ConfigDef.Importance.HIGH, "What it does.")
                    .define("times", ConfigDef.Type.INT, null, ConfigDef.Importance.LOW, "How often.");
        }

        @Override
        public R apply(R record) {
            if (!"bad".equals(record.value()) || left-- <= 0) return record;
            switch (does) {
                case "throw": throw new DataException("This is bad", new IllegalStateException("the reason"));
                case "retry": throw new RetriableException("Not yet");
                case "exit": System.exit(7);
                case "crash": crash();
                case "memory": fill();
                case "sleep": sleep();
                case "missing": return MissingUser.use(record);
                case "mute": throw new Mute();
                case "half": throw new ConnectException("half of a pair: \ud800!");
                case "long": throw new ConnectException("x".repeat(3_000_000));
                case "checked": throw Misbehaves.<RuntimeException>undeclared(new java.io.IOException("undeclared"));
                default: throw new ConnectException("Unknown: " + does);
            }
        }

        @SuppressWarnings("unchecked")
        private static <E extends Throwable> E undeclared(Throwable thrown) throws E {
            throw (E) thrown;
        }

        /** An exception that cannot be written. */
        private static final class Mute extends RuntimeException {
            @Override
            public String getMessage() {
                throw new IllegalStateException("no text");
            }
        }

        private static void crash() {
            try {
                Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                ((sun.misc.Unsafe) field.get(null)).putAddress(0, 0);
            } catch (ReflectiveOperationException e) {
                throw new ConnectException(e);
            }
        }

        private static void fill() {
            List<long[]> kept = new ArrayList<>();
            while (true) kept.add(new long[10_000_000]);
        }

        private static void sleep() {
            LoggerFactory.getLogger(TestPlugins.class).info("now it sleeps");
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                throw new ConnectException(e);
            }
        }
    }

    static class MissingUser {
        static <R extends ConnectRecord<R>> R use(R record) {
            return new Missing().pass(record);
        }
    }

    /** Numbers from 0 on, with what it was reported of them: commitRecord and commit go to the log. */
    public static class Numbers extends SourceConnector {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
            var metrics = context.pluginMetrics();
            metrics.addMetric(metrics.metricName("count", "How many there will be.", new LinkedHashMap<>()),
                    (Gauge<String>) (time, now) -> config.getOrDefault("count", "1000"));
        }

        @Override
        public Class<? extends Task> taskClass() {
            return NumbersTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where they go.")
                    .define("count", ConfigDef.Type.LONG, 1000L, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "How many.")
                    .define("ends", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW,
                            "Numbers after which it ends a transaction: 5 commits, -5 aborts.")
                    .define("bad", ConfigDef.Type.LONG, -1L, ConfigDef.Importance.LOW, "The one whose value is bad.")
                    .define("says", ConfigDef.Type.STRING, "bad", ConfigDef.Importance.LOW, "That value.")
                    .define("misfit", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "That it is of another schema.")
                    .define("idle", ConfigDef.Type.STRING, null, ConfigDef.Importance.LOW,
                            "How it ends its transaction in the first poll without records: by `abort` or `commit`.")
                    .define("odd", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "That its offset is a date.");
        }
    }

    public static class NumbersTask extends SourceTask {
        private String topic;
        private long next;
        private long count;
        private long bad;
        private long nothing;
        private String says;
        private boolean misfit;
        private boolean odd;
        private String idle;
        private List<String> ends;
        private boolean copies; // it names a record that is equal to the last one

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> config) {
            ends = List.of(config.getOrDefault("ends", "").split(","));
            copies = Boolean.parseBoolean(config.get("copies"));
            topic = config.get("topic");
            count = Long.parseLong(config.getOrDefault("count", "1000"));
            bad = Long.parseLong(config.getOrDefault("bad", "-1"));
            nothing = Long.parseLong(config.getOrDefault("nothing", "-1"));
            says = config.getOrDefault("says", "bad");
            misfit = Boolean.parseBoolean(config.get("misfit"));
            odd = Boolean.parseBoolean(config.get("odd"));
            idle = config.get("idle");
            Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("source", "numbers"));
            next = offset == null ? 0 : (Long) offset.get("next");
            // a second run of the task adds it again
            var metrics = context.pluginMetrics();
            metrics.addMetric(metrics.metricName("next", "The next number.", new LinkedHashMap<>()),
                    (Gauge<Long>) (given, now) -> next);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next >= count && idle != null) {
                boolean throwsThen = idle.endsWith(", retry");
                if (idle.startsWith("abort")) context.transactionContext().abortTransaction();
                else context.transactionContext().commitTransaction();
                idle = null;
                if (throwsThen) {
                    count += 2;
                    throw new RetriableException("Not yet");
                }
                return List.of();
            }
            if (next >= count) {
                LoggerFactory.getLogger(TestPlugins.class).debug("nothing left of {}", count);
                Thread.sleep(50);
                return null;
            }
            List<SourceRecord> made = new ArrayList<>();
            for (int i = 0; i < 100 && next < count; i++, next++) {
                String value = next == bad ? says : "number " + next;
                if (next == nothing) made.add(null);
                Object after = odd && next == bad ? new java.util.Date(next) : (Object) (next + 1);
                made.add(new SourceRecord(Map.of("source", "numbers"), Map.of("next", after), value.equals("nowhere") ? null : topic,
                        Schema.STRING_SCHEMA, "k" + next, misfit && next == bad ? Schema.INT32_SCHEMA : Schema.STRING_SCHEMA, value));
                SourceRecord last = made.get(made.size() - 1);
                if (copies) last = last.newRecord(topic, null, last.keySchema(), last.key(), last.valueSchema(), last.value(), null);
                if (ends.contains(Long.toString(next))) context.transactionContext().commitTransaction(last);
                if (ends.contains(Long.toString(-next))) context.transactionContext().abortTransaction(last);
            }
            if (next >= count && idle == null && context.transactionContext() != null) context.transactionContext().commitTransaction();
            return made;
        }

        @Override
        public void stop() {}
    }

    /** Does what values say (retry, rewind, pause, commit, report), each once, and writes down what it is called with. */
    public static class Obeying extends org.apache.kafka.connect.sink.SinkConnector {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return ObeyingTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("journal", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where it writes.");
        }
    }

    public static class ObeyingTask extends SinkTask {
        private final Set<String> obeyed = new HashSet<>();
        private PrintStream journal;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> config) {
            try {
                journal = new PrintStream(new FileOutputStream(config.get("journal"), true), true);
            } catch (IOException e) {
                throw new ConnectException(e);
            }
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            if (!context.assignment().containsAll(partitions)) throw new ConnectException("These are not assigned");
            say("open " + partitions);
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            say("close " + partitions);
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) return;
            for (SinkRecord record : records) if (is("retry", record)) retry();
            long first = -1;
            long last = -1;
            for (SinkRecord record : records) {
                if (first < 0) first = record.originalKafkaOffset();
                last = record.originalKafkaOffset();
            }
            say("put " + first + " " + last);
            for (SinkRecord record : records) obey(record);
        }

        private void retry() {
            say("retry");
            context.timeout(20);
            throw new RetriableException("Once more");
        }

        private void obey(SinkRecord record) {
            TopicPartition place = new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
            if (is("rewind", record)) {
                say("rewind " + (record.originalKafkaOffset() - 5));
                context.offset(place, record.originalKafkaOffset() - 5);
            } else if (is("pause", record)) {
                context.pause(place);
                say("pause");
                later(300, () -> {
                    say("resume");
                    context.resume(place);
                });
            } else if (is("commit", record)) {
                say("request");
                context.requestCommit();
            } else if (is("report", record)) {
                later(600, () -> {
                    try {
                        context.errantRecordReporter().report(record, new DataException("too late")).get();
                        say("reported");
                    } catch (Exception e) {
                        say("not reported: " + e);
                    }
                });
            }
        }

        private boolean is(String what, SinkRecord record) {
            return what.equals(record.value()) && obeyed.add(what);
        }

        private static void later(long ms, Runnable action) {
            new Thread(() -> {
                try {
                    Thread.sleep(ms);
                    action.run();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }).start();
        }

        @Override
        public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            offsets.values().forEach(offset -> say("commit " + offset.offset()));
            offsets.replaceAll((place, offset) -> new OffsetAndMetadata(offset.offset(), "before " + offset.offset()));
            return offsets;
        }

        @Override
        public void stop() {
            say("stop");
        }

        private synchronized void say(String what) {
            journal.println(what);
        }
    }

    /** Records of all kinds in each poll: random schemas, values, headers and topics, the same for the same seed. */
    public static class Shapes extends Numbers {
        @Override
        public Class<? extends Task> taskClass() {
            return ShapesTask.class;
        }

        @Override
        public ConfigDef config() {
            return super.config().define("seed", ConfigDef.Type.LONG, 1L, ConfigDef.Importance.LOW, "What they begin with.");
        }
    }

    public static class ShapesTask extends SourceTask {
        private static final int DEEPEST = 3;
        private final List<Schema> schemas = new ArrayList<>();
        private Random random;
        private String topic;
        private long next;
        private long count;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> config) {
            random = new Random(Long.parseLong(config.getOrDefault("seed", "1")));
            topic = config.get("topic");
            count = Long.parseLong(config.get("count"));
            for (int i = 0; i < 12; i++) schemas.add(schema(0));
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next >= count) {
                Thread.sleep(50);
                return null;
            }
            List<SourceRecord> made = new ArrayList<>();
            for (int i = 0; i < 200 && next < count; i++, next++) {
                // a few neighbours are alike, some have no schema
                Schema schema = schemas.get((int) (next / 7 % schemas.size()));
                boolean isPlain = next / 7 % 5 == 4;
                Object value = isPlain ? plain(0) : random.nextInt(20) == 0 ? null : value(schema);
                SourceRecord record = new SourceRecord(Map.of("source", "shapes"), Map.of("next", next), topic, 0,
                        Schema.INT64_SCHEMA, next, isPlain || value == null ? null : schema, value, 1000 + next);
                if (next % 9 == 0) record.headers().addInt("number", (int) next).addString("text", "h" + next);
                made.add(record);
            }
            return made;
        }

        private Schema schema(int depth) {
            SchemaBuilder made;
            switch (random.nextInt(depth < DEEPEST ? 16 : 13)) {
                case 0: made = SchemaBuilder.int8(); break;
                case 1: made = SchemaBuilder.int16(); break;
                case 2: made = SchemaBuilder.int32(); break;
                case 3: made = SchemaBuilder.int64(); break;
                case 4: made = SchemaBuilder.float32(); break;
                case 5: made = SchemaBuilder.float64(); break;
                case 6: made = SchemaBuilder.bool(); break;
                case 7: made = SchemaBuilder.bytes(); break;
                case 8: made = Decimal.builder(2); break;
                case 9: made = Date.builder(); break;
                case 10: made = Time.builder(); break;
                case 11: made = Timestamp.builder(); break;
                case 12: made = SchemaBuilder.string().doc("a text"); break;
                case 13: made = SchemaBuilder.array(schema(depth + 1)); break;
                case 14: made = SchemaBuilder.map(Schema.STRING_SCHEMA, schema(depth + 1)); break;
                default:
                    made = SchemaBuilder.struct().name("row" + random.nextInt(100)).version(random.nextInt(3) + 1);
                    for (int i = 0; i < 4; i++) made.field("f" + i, schema(depth + 1));
            }
            return random.nextBoolean() ? made.optional().build() : made.build();
        }

        private Object value(Schema schema) {
            if (schema.isOptional() && random.nextInt(4) == 0) return null;
            String name = schema.name() == null ? "" : schema.name();
            if (name.equals(Decimal.LOGICAL_NAME)) return new BigDecimal(new BigInteger(random.nextInt(120), random), 2);
            if (name.equals(Date.LOGICAL_NAME)) return new java.util.Date(86_400_000L * (random.nextInt(40_000) - 10_000));
            if (name.equals(Time.LOGICAL_NAME)) return new java.util.Date(random.nextInt(86_400_000));
            if (name.equals(Timestamp.LOGICAL_NAME)) return new java.util.Date(random.nextLong() >> 22);
            switch (schema.type()) {
                case INT8: return (byte) random.nextInt();
                case INT16: return (short) random.nextInt();
                case INT32: return random.nextInt();
                case INT64: return random.nextLong();
                case FLOAT32: return random.nextFloat();
                case FLOAT64: return random.nextGaussian();
                case BOOLEAN: return random.nextBoolean();
                case BYTES: return text().getBytes(StandardCharsets.UTF_8);
                case STRING: return text();
                case ARRAY:
                    List<Object> items = new ArrayList<>();
                    for (int i = random.nextInt(4); i > 0; i--) items.add(value(schema.valueSchema()));
                    return items;
                case MAP:
                    Map<Object, Object> pairs = new LinkedHashMap<>();
                    for (int i = random.nextInt(4); i > 0; i--) pairs.put("k" + i, value(schema.valueSchema()));
                    return pairs;
                default:
                    Struct row = new Struct(schema);
                    for (org.apache.kafka.connect.data.Field field : schema.fields()) row.put(field, value(field.schema()));
                    return row;
            }
        }

        private Object plain(int depth) {
            switch (random.nextInt(depth < DEEPEST ? 7 : 5)) {
                case 0: return text();
                case 1: return random.nextLong();
                case 2: return random.nextBoolean();
                case 3: return random.nextGaussian();
                case 4: return null;
                case 5: return new ArrayList<>(java.util.Arrays.asList(plain(depth + 1), plain(depth + 1)));
                default:
                    Map<String, Object> made = new LinkedHashMap<>();
                    for (int i = 0; i < 3; i++) made.put("m" + i, plain(depth + 1));
                    return made;
            }
        }

        private String text() {
            return "text \u00e4\ud83d\ude00 ".substring(0, random.nextInt(7)) + random.nextInt(1000);
        }

        @Override
        public void stop() {}
    }

    /** Numbers that write down where in Kafka each of them is. */
    public static class Reported extends Numbers {
        @Override
        public Class<? extends Task> taskClass() {
            return ReportedTask.class;
        }

        @Override
        public ConfigDef config() {
            return super.config().define("journal", ConfigDef.Type.STRING, ConfigDef.Importance.LOW, "Where it writes.");
        }
    }

    public static class ReportedTask extends NumbersTask {
        private PrintStream journal;

        @Override
        public void start(Map<String, String> config) {
            super.start(config);
            try {
                journal = new PrintStream(new FileOutputStream(config.get("journal"), true), true);
            } catch (IOException e) {
                throw new ConnectException(e);
            }
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            journal.println(record.value() + (metadata == null ? " nowhere" : " at " + metadata.offset()));
        }
    }
}
