package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * The consumer in a sink task's context. Python has the one that fetches: what that knows is answered, a seek or a pause
 * becomes what the task asks of its context, and the rest is refused. Threads: any.
 */
final class HostConsumer implements InvocationHandler {
    private static final long ASK_MS = 30_000; // of calls without a Duration; within Control.ANSWER_S
    private static final String DONE_BY_CONTEXT = "Return from preCommit() what may be committed, or call requestCommit() of the "
            + "context.";
    private static final String DONE_BY_PYTHON = "Records come by put(), and kconnect joins and leaves the group.";
    private static final String OWN_CLIENT = "Make a client of your own for it.";
    private final Upcall upcall;
    private final SinkTaskContext context;
    private final SinkPlaces places;
    private final String plugin;

    private HostConsumer(Upcall upcall, SinkTaskContext context, SinkPlaces places, String plugin) {
        this.upcall = upcall;
        this.context = context;
        this.places = places;
        this.plugin = plugin;
    }

    /** `plugin`: its class and folder, for what is refused. */
    @SuppressWarnings("unchecked")
    static Consumer<byte[], byte[]> of(Upcall upcall, SinkTaskContext context, SinkPlaces places, String plugin) {
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(HostConsumer.class.getClassLoader(),
                new Class<?>[] {Consumer.class}, new HostConsumer(upcall, context, places, plugin));
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object invoke(Object proxy, Method method, Object[] given) {
        Object first = given == null ? null : given[0];
        return switch (method.getName()) {
            case "groupMetadata" -> group();
            case "assignment" -> places.assigned();
            case "paused" -> places.paused();
            case "subscription" -> subscription();
            case "position" -> position((TopicPartition) first, timeoutMs(given));
            case "committed" -> committed((Set<TopicPartition>) first, timeoutMs(given));
            case "beginningOffsets" -> ends((Collection<TopicPartition>) first, 2, timeoutMs(given));
            case "endOffsets" -> ends((Collection<TopicPartition>) first, 3, timeoutMs(given));
            case "offsetsForTimes" -> atTimes((Map<TopicPartition, Long>) first, timeoutMs(given));
            case "currentLag" -> lag((TopicPartition) first);
            case "seek" -> seek((TopicPartition) first, given[1] instanceof OffsetAndMetadata one ? one.offset() : (Long) given[1]);
            case "seekToBeginning" -> seekTo((Collection<TopicPartition>) first, 2);
            case "seekToEnd" -> seekTo((Collection<TopicPartition>) first, 3);
            case "pause" -> change(() -> context.pause(owned((Collection<TopicPartition>) first)));
            case "resume" -> change(() -> context.resume(owned((Collection<TopicPartition>) first)));
            case "equals" -> proxy == first;
            case "hashCode" -> System.identityHashCode(proxy);
            case "toString" -> "the consumer of " + plugin;
            case "commitSync", "commitAsync" -> throw refused(method, DONE_BY_CONTEXT);
            case "partitionsFor", "listTopics", "metrics", "clientInstanceId" -> throw refused(method, OWN_CLIENT);
            default -> throw refused(method, DONE_BY_PYTHON);
        };
    }

    private UnsupportedOperationException refused(Method method, String instead) {
        return new UnsupportedOperationException(plugin + " called " + method.getName() + "() of the consumer in its task's "
                + "context, which kconnect does not give to plugins. " + instead + " See What plugins reach for in "
                + "docs/java-plugins.md.");
    }

    private static long timeoutMs(Object[] given) {
        return given.length > 1 && given[1] instanceof Duration wanted ? Math.min(wanted.toMillis(), ASK_MS) : ASK_MS;
    }

    private JsonNode ask(String what, long timeoutMs, Collection<?> partitions) {
        return upcall.ask("consumer", Json.map("what", what, "timeout_ms", timeoutMs, "partitions", partitions));
    }

    private static List<Object> json(Collection<TopicPartition> partitions) {
        List<Object> made = new ArrayList<>();
        for (TopicPartition one : partitions) made.add(new Object[] {one.topic(), one.partition()});
        return made;
    }

    private ConsumerGroupMetadata group() {
        JsonNode reported = ask("group", ASK_MS, List.of());
        return new ConsumerGroupMetadata(reported.get("group").asText(), reported.get("generation").asInt(),
                reported.get("member").asText(), Optional.ofNullable(Json.text(reported.get("instance"))));
    }

    private Set<String> subscription() {
        Set<String> made = new HashSet<>();
        ask("subscription", ASK_MS, List.of()).forEach(topic -> made.add(topic.asText()));
        return made;
    }

    private long position(TopicPartition place, long timeoutMs) {
        // Both sentences are those of Java's consumer
        if (!places.has(place)) {
            throw new IllegalStateException("You can only check the position for partitions assigned to this consumer.");
        }
        Long known = places.position(place);
        return known != null ? known : ask("position", timeoutMs, json(List.of(place))).get(0).get(2).asLong();
    }

    private Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> wanted, long timeoutMs) {
        Map<TopicPartition, OffsetAndMetadata> made = new HashMap<>();
        if (wanted.isEmpty()) return made;
        for (JsonNode one : ask("committed", timeoutMs, json(wanted))) {
            made.put(SinkPlaces.place(one), one.get(2).isNull() ? null
                    : new OffsetAndMetadata(one.get(2).asLong(), one.get(3).asText("")));
        }
        return made;
    }

    /** `column`: 2 the first offsets, 3 those behind the last. */
    private Map<TopicPartition, Long> ends(Collection<TopicPartition> wanted, int column, long timeoutMs) {
        Map<TopicPartition, Long> made = new HashMap<>();
        if (wanted.isEmpty()) return made;
        for (JsonNode one : ask("ends", timeoutMs, json(wanted))) made.put(SinkPlaces.place(one), one.get(column).asLong());
        return made;
    }

    private Map<TopicPartition, OffsetAndTimestamp> atTimes(Map<TopicPartition, Long> wanted, long timeoutMs) {
        List<Object> asked = new ArrayList<>();
        wanted.forEach((place, time) -> asked.add(new Object[] {place.topic(), place.partition(), time}));
        Map<TopicPartition, OffsetAndTimestamp> made = new HashMap<>();
        if (asked.isEmpty()) return made;
        for (JsonNode one : ask("times", timeoutMs, asked)) {
            TopicPartition place = SinkPlaces.place(one);
            made.put(place, one.get(2).isNull() ? null : new OffsetAndTimestamp(one.get(2).asLong(), wanted.get(place)));
        }
        return made;
    }

    private OptionalLong lag(TopicPartition place) {
        long end = ends(List.of(place), 3, ASK_MS).get(place);
        return OptionalLong.of(Math.max(0, end - position(place, ASK_MS)));
    }

    private Object seek(TopicPartition place, long offset) {
        require(place);
        context.offset(place, offset);
        return null;
    }

    private Object seekTo(Collection<TopicPartition> wanted, int column) {
        Collection<TopicPartition> all = wanted.isEmpty() ? places.assigned() : wanted;
        ends(all, column, ASK_MS).forEach(this::seek);
        return null;
    }

    private interface Change {
        void run();
    }

    private static Object change(Change change) {
        change.run();
        return null;
    }

    private TopicPartition[] owned(Collection<TopicPartition> wanted) {
        wanted.forEach(this::require);
        return wanted.toArray(new TopicPartition[0]);
    }

    /** Source: o.a.k.clients.consumer.internals.SubscriptionState.assignedState. */
    private void require(TopicPartition place) {
        if (!places.has(place)) throw new IllegalStateException("No current assignment for partition " + place);
    }
}
