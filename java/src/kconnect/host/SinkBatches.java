package kconnect.host;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * What Python has sent and the task has not put, in the order in which it came: a batch is what one put() takes, a part
 * of it what came of one partition. Python sends the next batch while the task puts this one.
 */
final class SinkBatches {
    private final Deque<Batch> batches = new ArrayDeque<>();

    /** Records of one partition: first as they were read, then as the task takes them. */
    static final class Part {
        List<ConsumerRecord<byte[], byte[]>> unread = List.of();
        List<SinkRecord> records = new ArrayList<>();
        int done; // so many of the unread ones have been converted
        TopicPartition place;
        long next; // the offset behind its last record

        void ends(ConsumerRecord<?, ?> last) {
            place = SinkBatches.place(last);
            next = last.offset() + 1;
        }

        void ends(SinkRecord last) {
            place = new TopicPartition(last.originalTopic(), last.originalKafkaPartition());
            next = last.originalKafkaOffset() + 1;
        }
    }

    static final class Batch {
        final long number;
        final List<Part> parts = new ArrayList<>();

        Batch(long number) {
            this.number = number;
        }

        boolean isConverted() {
            for (Part part : parts) if (part.done < part.unread.size()) return false;
            return true;
        }

        int size() {
            int count = 0;
            for (Part part : parts) count += part.records.size();
            return count;
        }

        /** A list of its own for each put(), as in Java's worker: the task may keep it or change it. */
        List<SinkRecord> records() {
            List<SinkRecord> made = new ArrayList<>(size());
            for (Part part : parts) made.addAll(part.records);
            return made;
        }
    }

    /** The batch of that number, a new one at the end if there is none. */
    Batch get(long number) {
        for (Batch batch : batches) if (batch.number == number) return batch;
        Batch made = new Batch(number);
        batches.add(made);
        return made;
    }

    /** Whether nothing came before the batch that is still to be put, and all of it is converted. */
    boolean isNext(Batch batch) {
        return batches.peek() == batch && batch.isConverted();
    }

    void put(Batch batch) {
        batches.remove(batch);
    }

    /** Forgets what came of these partitions in one batch; gives the number of records that are left in it. */
    int drop(Batch batch, Collection<TopicPartition> gone) {
        for (Part part : batch.parts) {
            part.records.removeIf(record -> gone.contains(
                    new TopicPartition(record.originalTopic(), record.originalKafkaPartition())));
            if (!part.unread.isEmpty() && gone.contains(place(part.unread.get(0)))) part.unread = List.of();
        }
        if (batch.size() == 0 && batch.isConverted()) batches.remove(batch);
        return batch.size();
    }

    /** Forgets what came of these partitions in all batches. */
    void drop(Collection<TopicPartition> gone) {
        for (Batch batch : List.copyOf(batches)) drop(batch, gone);
    }

    private static TopicPartition place(ConsumerRecord<?, ?> record) {
        return new TopicPartition(record.topic(), record.partition());
    }
}
