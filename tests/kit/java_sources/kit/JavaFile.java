package kit;

import org.apache.kafka.connect.file.FileStreamSinkConnector;

/** Kafka's own sink into a file, by a name of which there is no twin in Python: so Java's code runs everywhere. */
public class JavaFile extends FileStreamSinkConnector {}
