package kconnect.host;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * Short names of plugins, which a setting of type CLASS may have as `connector.class` may: AvroConverter, Avro. One
 * that fits two classes is none.
 * Source: o.a.k.connect.runtime.isolation.PluginUtils.computeAliases, DelegatingClassLoader.loadClass.
 */
final class Aliases {
    private final Map<String, List<String>> kinds;
    private final ClassLoader ofKafka;
    private Map<String, String> names; // made when the first one is asked for: hardly any worker ever does

    /** `kinds` are those of each class in a folder; Kafka's own name themselves in the manifests of its jars. */
    Aliases(Map<String, List<String>> kinds, ClassLoader ofKafka) {
        this.kinds = kinds;
        this.ofKafka = ofKafka;
    }

    /** The class that a short name means; null for none. */
    synchronized String className(String alias) {
        if (names == null) names = unambiguous();
        return names.get(alias);
    }

    private Map<String, String> unambiguous() {
        Map<String, Set<String>> meant = new HashMap<>();
        kinds.forEach((name, found) -> found.forEach(kind -> add(meant, name, kind)));
        Kinds.interfaces().forEach((type, kind) -> ofKafka(type).forEach(name -> add(meant, name, kind)));
        Map<String, String> found = new HashMap<>();
        meant.forEach((alias, classes) -> {
            if (classes.size() == 1) found.put(alias, classes.iterator().next());
        });
        return found;
    }

    private static void add(Map<String, Set<String>> meant, String name, String kind) {
        String simple = name.substring(Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1);
        int cut = simple.lastIndexOf(Kinds.suffix(kind));
        meant.computeIfAbsent(simple, alias -> new HashSet<>()).add(name);
        if (cut > 0) meant.computeIfAbsent(simple.substring(0, cut), alias -> new HashSet<>()).add(name);
    }

    private Set<String> ofKafka(Class<?> type) {
        Set<String> found = new HashSet<>();
        try {
            for (URL manifest : Collections.list(ofKafka.getResources("META-INF/services/" + type.getName()))) {
                try (InputStream in = manifest.openStream()) {
                    new String(in.readAllBytes(), StandardCharsets.UTF_8).lines()
                            .map(line -> line.split("#", 2)[0].trim()).filter(line -> !line.isEmpty()).forEach(found::add);
                }
            }
        } catch (IOException e) {
            throw new ConnectException("The manifests of Kafka's jars cannot be read", e);
        }
        return found;
    }
}
