import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.ClientDnsLookup;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.config.ConfigException;

/** For each line of the input, a value of bootstrap.servers: the ports that Java's clients read in it, or why they refuse it. */
public class Addresses {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                Map<String, Object> props = Map.of("bootstrap.servers", line.replace("\\t", "\t"));
                List<String> urls = new AdminClientConfig(props).getList("bootstrap.servers");
                StringBuilder found = new StringBuilder("ok");
                for (InetSocketAddress address : ClientUtils.parseAndValidateAddresses(urls, ClientDnsLookup.USE_ALL_DNS_IPS))
                    found.append(' ').append(address.getPort());
                System.out.println(found);
            } catch (ConfigException e) {
                System.out.println("refused " + e.getMessage());
            }
        }
    }
}
