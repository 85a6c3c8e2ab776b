package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** Reads mm2.properties as JSON, one a line; writes what Java derives from each, or its error. */
public class MirrorSettings {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Map<String, Object> names = new LinkedHashMap<>();
        names.put("client", new TreeSet<>(MirrorClientConfig.CLIENT_CONFIG_DEF.names()));
        names.put("connector", new TreeSet<>(new MirrorMakerConfig(Map.of("clusters", "a")).allConfigNames()));
        System.out.println(json.writeValueAsString(names));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode given = json.readTree(line);
            Map<String, String> properties = new LinkedHashMap<>();
            given.fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
            System.out.println(json.writeValueAsString(answer(properties)));
        }
    }

    private static Object answer(Map<String, String> properties) {
        try {
            MirrorMakerConfig config = new MirrorMakerConfig(properties);
            Map<String, Object> flows = new TreeMap<>();
            for (SourceAndTarget flow : config.clusterPairs()) {
                Map<String, Object> made = new LinkedHashMap<>();
                made.put("worker", config.workerConfig(flow));
                for (Class<?> connector : MirrorMaker.CONNECTOR_CLASSES) {
                    made.put(connector.getSimpleName(), config.connectorBaseConfig(flow, connector));
                }
                flows.put(flow.toString(), made);
            }
            return flows;
        } catch (RuntimeException e) {
            return e.getMessage();
        }
    }
}
