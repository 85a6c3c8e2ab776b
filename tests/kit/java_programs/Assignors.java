package org.apache.kafka.connect.runtime.distributed;

import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Plays the leader of a group with Java's assignors; all names are hex of UTF-8, fields are parted by a space.
 *   leader MAX_DELAY_MS       a new leader, with no memory
 *   connector NAME TASKS      one of the configured connectors; TASKS is -1 where task configs are inconsistent
 *   member ID METADATA        one that has joined; the first is the leader
 *   round NOW LAST_GENERATION GENERATION PROTOCOL OFFSET FRESH_OFFSET
 *                             assign; what was said of connectors and members is for this round alone
 * Answers each round by lines "assignment ID BYTES" and "owner ID NAME [TASK]", and then "done".
 */
public class Assignors {
    static long now;

    static class Leader extends WorkerCoordinator {
        int lastGeneration, generation;
        ClusterConfigState snapshot, fresh;
        LeaderState state;

        Leader(Time time, int maxDelay) {
            super(new GroupRebalanceConfig(10000, 60000, 3000, "group", Optional.empty(), null, 100L, 1000L),
                new LogContext(), null, new Metrics(), "connect", time, "http://leader/", null, null,
                ConnectProtocolCompatibility.SESSIONED, maxDelay);
        }

        @Override public int generationId() { return generation; }
        @Override public int lastCompletedGenerationId() { return lastGeneration; }
        @Override public String memberId() { return "leader"; }
        @Override public ClusterConfigState configSnapshot() { return snapshot; }
        @Override public ClusterConfigState configFreshSnapshot() { return fresh; }
        @Override public void configSnapshot(ClusterConfigState update) { snapshot = update; }
        @Override public void leaderState(LeaderState update) { state = update; }
    }

    public static void main(String[] args) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(Assignors.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> {
                if (method.getName().equals("milliseconds")) return now;
                if (method.isDefault()) return InvocationHandler.invokeDefault(proxy, method, values);
                throw new UnsupportedOperationException(method.getName());
            });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.US_ASCII);
        Leader leader = null;
        Map<String, Integer> counts = new LinkedHashMap<>();
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split(" ");
            switch (field[0]) {
                case "leader" -> leader = new Leader(time, Integer.parseInt(field[1]));
                case "connector" -> counts.put(text(field[1]), Integer.parseInt(field[2]));
                case "member" -> members.add(new JoinGroupResponseMember()
                    .setMemberId(text(field[1])).setMetadata(HexFormat.of().parseHex(field[2])));
                case "round" -> {
                    now = Long.parseLong(field[1]);
                    leader.lastGeneration = Integer.parseInt(field[2]);
                    leader.generation = Integer.parseInt(field[3]);
                    leader.snapshot = snapshot(Long.parseLong(field[5]), counts);
                    leader.fresh = snapshot(Long.parseLong(field[6]), counts);
                    leader.state = null;
                    round(leader, field[4], members, out);
                    counts.clear();
                    members.clear();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void round(Leader leader, String protocol, List<JoinGroupResponseMember> members, PrintStream out)
            throws Exception {
        Map<String, ByteBuffer> assignments =
            leader.onLeaderElected(members.get(0).memberId(), protocol, members, false);
        for (Map.Entry<String, ByteBuffer> entry : assignments.entrySet()) {
            byte[] bytes = new byte[entry.getValue().remaining()];
            entry.getValue().get(bytes);
            out.println("assignment " + hex(entry.getKey()) + " " + HexFormat.of().formatHex(bytes));
        }
        if (leader.state != null) {
            for (Map.Entry<?, ?> owner : owners(leader.state, "connectorOwners"))
                out.println("owner " + hex((String) owner.getValue()) + " " + hex((String) owner.getKey()));
            for (Map.Entry<?, ?> owner : owners(leader.state, "taskOwners")) {
                ConnectorTaskId task = (ConnectorTaskId) owner.getKey();
                out.println("owner " + hex((String) owner.getValue()) + " " + hex(task.connector()) + " " + task.task());
            }
        }
        out.println("done");
    }

    private static Set<? extends Map.Entry<?, ?>> owners(Object state, String name) throws Exception {
        Field field = state.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return ((Map<?, ?>) field.get(state)).entrySet();
    }

    private static ClusterConfigState snapshot(long offset, Map<String, Integer> counts) {
        Map<String, Integer> taskCounts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        Set<String> inconsistent = new HashSet<>();
        counts.forEach((name, count) -> {
            configs.put(name, Map.of());
            taskCounts.put(name, Math.abs(count));
            if (count < 0) inconsistent.add(name);
            for (int number = 0; number < count; number++) taskConfigs.put(new ConnectorTaskId(name, number), Map.of());
        });
        return new ClusterConfigState(offset, null, taskCounts, configs, Map.of(), taskConfigs, Map.of(), Map.of(),
            Map.of(), Set.of(), inconsistent);
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
