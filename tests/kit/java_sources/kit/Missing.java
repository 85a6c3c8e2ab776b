package kit;

import org.apache.kafka.connect.connector.ConnectRecord;

/** Is compiled, and then left out of the jar. */
class Missing {
    <R extends ConnectRecord<R>> R pass(R record) {
        return record;
    }
}
