package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.security.MessageDigest;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What all sessions of the process share. */
final class Host {
    private final Folders folders;
    private final Control control = new Control(this);
    private final Meters meters = new Meters();
    private final Beans beans;
    private final Map<Long, Thread> threads = new ConcurrentHashMap<>();
    private final byte[] token;

    Host(JsonNode start) {
        Map<String, List<String>> index = new HashMap<>();
        start.get("index").fields().forEachRemaining(plugin -> {
            List<String> places = new ArrayList<>();
            plugin.getValue().forEach(place -> places.add(place.asText()));
            index.put(plugin.getKey(), places);
        });
        folders = new Folders(index);
        List<String> patterns = new ArrayList<>();
        start.path("mbeans").forEach(pattern -> patterns.add(pattern.asText()));
        beans = new Beans(this, patterns);
        token = start.get("token").asText().getBytes(StandardCharsets.UTF_8);
    }

    Folders folders() {
        return folders;
    }

    Control control() {
        return control;
    }

    Meters meters() {
        return meters;
    }

    Beans beans() {
        return beans;
    }

    /** The threads that serve sessions, by their numbers. */
    Map<Long, Thread> threads() {
        return threads;
    }

    boolean knows(String given) {
        return MessageDigest.isEqual(token, given.getBytes(StandardCharsets.UTF_8));
    }
}
