import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/** Reads one hex-encoded .properties document per line, answers its entries as hex of UTF-16, sorted, or ERROR. */
public class PropsDump {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = HexFormat.of().parseHex(line);
            try {
                Properties props = new Properties();
                props.load(new ByteArrayInputStream(bytes));
                List<String> entries = new ArrayList<>();
                for (String key : props.stringPropertyNames()) entries.add(hex(key) + "=" + hex(props.getProperty(key)));
                Collections.sort(entries);
                out.append(String.join(" ", entries));
            } catch (IllegalArgumentException e) {
                out.append("ERROR ").append(e.getMessage());
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String hex(String text) {
        StringBuilder out = new StringBuilder();
        for (char c : text.toCharArray()) out.append(String.format("%04x", (int) c));
        return out.toString();
    }
}
