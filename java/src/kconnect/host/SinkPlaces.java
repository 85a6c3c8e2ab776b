package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;

/** The partitions of a sink task: which it has, which it has paused, and where it is in them. Threads: any. */
final class SinkPlaces {
    private final Set<TopicPartition> assigned = ConcurrentHashMap.newKeySet();
    private final Set<TopicPartition> paused = ConcurrentHashMap.newKeySet();
    private final Map<TopicPartition, Long> positions = new ConcurrentHashMap<>();

    static TopicPartition place(JsonNode one) {
        return new TopicPartition(one.get(0).asText(), one.get(1).asInt());
    }

    Set<TopicPartition> assigned() {
        return new HashSet<>(assigned);
    }

    boolean has(TopicPartition place) {
        return assigned.contains(place);
    }

    Set<TopicPartition> paused() {
        return new HashSet<>(paused);
    }

    /** The offset behind the last record that the task was given, or to which it asked to go; null before. */
    Long position(TopicPartition place) {
        return positions.get(place);
    }

    void open(Collection<TopicPartition> places) {
        assigned.addAll(places);
    }

    void close(Collection<TopicPartition> places) {
        assigned.removeAll(places);
        paused.removeAll(places);
        places.forEach(positions::remove);
    }

    void change(boolean isPause, TopicPartition... places) {
        if (isPause) paused.addAll(List.of(places));
        else paused.removeAll(List.of(places));
    }

    void moved(TopicPartition place, long offset) {
        positions.put(place, offset);
    }
}
