package kit;

import org.apache.kafka.connect.file.FileStreamSourceConnector;

/** Kafka's own source of lines, by a name of which there is no twin in Python: so Java's code runs everywhere. */
public class JavaLines extends FileStreamSourceConnector {}
