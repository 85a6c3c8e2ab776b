package kconnect.host;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.JMRuntimeException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.TabularData;

/**
 * The numbers of one MBean as rows: domain, properties in their order, names on the way to the attribute, its own name,
 * description, value. An attribute that throws is named once in the log, and the others are read.
 */
final class BeanReader {
    /** More of one MBean are not reported: an attribute with a row for each of a million tables fills no worker. */
    private static final int MOST_ROWS = 1000;

    private final MBeanServer server;
    private final ObjectName name;
    private final Session owner;
    private final List<List<String>> properties;
    private final Set<String> failing = new HashSet<>();
    private boolean isReported;

    /** `owner`: the session whose lines those about it are; may be null. */
    BeanReader(MBeanServer server, ObjectName name, Session owner) {
        this.server = server;
        this.name = name;
        this.owner = owner;
        this.properties = properties(name);
    }

    List<Object> rows() {
        List<Object> found = new ArrayList<>();
        try {
            for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                if (attribute.isReadable() && mayBeNumbers(attribute.getType())) add(found, attribute);
            }
        } catch (InstanceNotFoundException e) {
            return List.of(); // it was unregistered just now
        } catch (JMException | RuntimeException | LinkageError e) {
            tell("its attributes", e);
        }
        if (found.size() <= MOST_ROWS) return found;
        if (!isReported) say("has " + found.size() + " numbers, of which " + MOST_ROWS + " are shown", null);
        isReported = true;
        return found.subList(0, MOST_ROWS);
    }

    /** Texts may be long, as may what is made of them each time. */
    private static boolean mayBeNumbers(String type) {
        return !type.equals("java.lang.String") && !type.startsWith("[");
    }

    private void add(List<Object> rows, MBeanAttributeInfo attribute) {
        String key = attribute.getName();
        try {
            Object value = server.getAttribute(name, key);
            String text = attribute.getDescription() == null ? "" : attribute.getDescription();
            new Row(properties, List.of(), key, text).add(rows, value);
            failing.remove(key);
        } catch (InstanceNotFoundException e) {
            return; // as above
        } catch (JMException | RuntimeException | Error e) {
            tell("its attribute " + key, e); // the plugin's, an Error too where a class is missing
        }
    }

    private void tell(String what, Throwable thrown) {
        Throwable cause = thrown;
        while (cause.getCause() != null && (cause instanceof JMException || cause instanceof JMRuntimeException)) {
            cause = cause.getCause();
        }
        if (failing.add(what)) say("cannot be read: " + what + " throws " + cause, thrown);
    }

    private void say(String what, Throwable thrown) {
        String text = "MBean " + name + " " + what + " (kconnect.java.mbeans)";
        Log.write(owner, BeanReader.class.getName(), 30, text, thrown);
    }

    /** A value on its way, with what is known of it. Source: io.prometheus.jmx.JmxScraper. */
    private final class Row {
        private final List<List<String>> of;
        private final List<String> path;
        private final String key;
        private final String text;

        Row(List<List<String>> of, List<String> path, String key, String text) {
            this.of = of;
            this.path = path;
            this.key = key;
            this.text = text;
        }

        void add(List<Object> rows, Object value) {
            if (value instanceof Attribute attribute) add(rows, attribute.getValue());
            else if (value instanceof Boolean is) tell(rows, is ? 1 : 0);
            else if (value instanceof Number given && Double.isFinite(given.doubleValue())) tell(rows, given);
            else if (value instanceof Number given) tell(rows, Map.of("float", String.valueOf(given.doubleValue())));
            else if (value instanceof CompositeData data) addParts(rows, data);
            else if (value instanceof TabularData data) addTable(rows, data);
        }

        private void tell(List<Object> rows, Object value) {
            rows.add(List.of(name.getDomain(), of, path, key, text, value));
        }

        private void addParts(List<Object> rows, CompositeData data) {
            for (String part : data.getCompositeType().keySet()) below(of, part).add(rows, data.get(part));
        }

        /** A row's index becomes properties, and a column `value` has the name of the attribute itself. */
        private void addTable(List<Object> rows, TabularData table) {
            List<String> index = table.getTabularType().getIndexNames();
            for (Object each : table.values()) {
                CompositeData data = (CompositeData) each;
                List<List<String>> more = new ArrayList<>(of);
                for (String column : index) more.add(List.of(free(more, column), String.valueOf(data.get(column))));
                for (String column : data.getCompositeType().keySet()) {
                    if (index.contains(column)) continue;
                    Row row = column.equalsIgnoreCase("value") ? new Row(more, path, key, text) : below(more, column);
                    row.add(rows, data.get(column));
                }
            }
        }

        private Row below(List<List<String>> given, String part) {
            List<String> longer = new ArrayList<>(path);
            longer.add(key);
            return new Row(given, longer, part, text);
        }
    }

    private static String free(List<List<String>> taken, String wanted) {
        String found = wanted;
        while (isTaken(taken, found)) found += "_";
        return found;
    }

    private static boolean isTaken(List<List<String>> taken, String name) {
        return taken.stream().anyMatch(pair -> pair.get(0).equals(name));
    }

    /** In the order of the name, quoted values without their quotes. */
    private static List<List<String>> properties(ObjectName name) {
        List<List<String>> found = new ArrayList<>();
        String text = name.getKeyPropertyListString();
        for (int at = 0; at < text.length(); ) {
            String key = text.substring(at, text.indexOf('=', at));
            String value = name.getKeyProperty(key);
            found.add(List.of(key, value.startsWith("\"") ? ObjectName.unquote(value) : value));
            at += key.length() + value.length() + 2;
        }
        return found;
    }
}
