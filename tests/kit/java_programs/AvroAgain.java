import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** For each line `schema TAB hex`: both as Avro's Java library writes them again after it has read them. */
public class AvroAgain {
  public static void main(String[] args) throws Exception {
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      String[] parts = line.split("\t", -1);
      Schema schema = new Schema.Parser().parse(parts[0]);
      byte[] data = HexFormat.of().parseHex(parts[1]);
      Object datum =
          new GenericDatumReader<Object>(schema).read(null, DecoderFactory.get().binaryDecoder(data, null));
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
      new GenericDatumWriter<Object>(schema).write(datum, encoder);
      encoder.flush();
      System.out.println(schema + "\t" + HexFormat.of().formatHex(out.toByteArray()));
    }
  }
}
