package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;

/**
 * Values of one schema in Arrow's layout, depth first: validity, then the type's own buffers, then those of its
 * children. Values without a schema, and those that Arrow has no place for (a decimal of 40 digits), are texts of JSON.
 */
final class Columns {
    private static final long MS_OF_DAY = 86_400_000L;
    private static final int DECIMAL_DIGITS = 38;
    private final String kind;
    private final Schema schema;
    private final Object[] values;

    private Columns(String kind, Schema schema, Object[] values) {
        this.kind = kind;
        this.schema = schema;
        this.values = values;
    }

    /** A column has a text with half a surrogate pair, which UTF-8 has no form for; in JSON it is an escape. */
    static final class HalfSurrogate extends RuntimeException {
        HalfSurrogate() {
            super(null, null, false, false);
        }
    }

    /** The way in which values can cross: nothing, columns, or texts; always as texts where columns were tried in vain. */
    static Columns of(Schema schema, Object[] values, boolean asTexts) {
        boolean isNothing = true;
        for (Object value : values) isNothing &= value == null;
        if (isNothing) return new Columns("null", schema, values);
        if (schema == null) return new Columns("plain", null, PlainJson.texts(values));
        return !asTexts && fits(schema, values) ? new Columns("columns", schema, values) : new Columns("json", schema, PlainJson.texts(schema, values));
    }

    /** A value for who reads of its record: as text where it does not fit. */
    static Columns shown(Schema schema, Object value) {
        try {
            Columns made = of(schema, new Object[] {value}, true);
            made.write(new Out());
            return made;
        } catch (RuntimeException e) {
            return of(null, new Object[] {Misfit.text(value)}, true);
        }
    }

    Map<String, Object> head() {
        return Json.map("kind", kind, "schema", Schemas.text(schema));
    }

    void write(Out out) {
        switch (kind) {
            case "null" -> { }
            case "columns" -> write(out, schema, values, values.length);
            default -> out.binary((byte[][]) values, values.length);
        }
    }

    /** What Python wrote in the same form. */
    static Object[] read(In in, JsonNode head, int count) {
        Schema schema = Schemas.read(Json.text(head.get("schema")));
        return switch (head.get("kind").asText()) {
            case "null" -> new Object[count];
            case "columns" -> read(in, schema, count);
            case "json" -> PlainJson.read(schema, in.binary(count));
            default -> PlainJson.read(in.binary(count));
        };
    }

    // --- writing ---

    private static boolean fits(Schema schema, Object[] values) {
        if (!mayHaveWideDecimal(schema)) return true;
        for (Object value : values) if (!decimalsFit(schema, value)) return false;
        return true;
    }

    private static boolean mayHaveWideDecimal(Schema schema) {
        return switch (schema.type()) {
            case STRUCT -> schema.fields().stream().anyMatch(field -> mayHaveWideDecimal(field.schema()));
            case ARRAY -> mayHaveWideDecimal(schema.valueSchema());
            case MAP -> mayHaveWideDecimal(schema.keySchema()) || mayHaveWideDecimal(schema.valueSchema());
            default -> Decimal.LOGICAL_NAME.equals(schema.name());
        };
    }

    private static boolean decimalsFit(Schema schema, Object value) {
        if (value == null) return true;
        return switch (schema.type()) {
            case STRUCT -> schema.fields().stream().allMatch(
                    field -> decimalsFit(field.schema(), ((Struct) value).getWithoutDefault(field.name())));
            case ARRAY -> ((Collection<?>) value).stream().allMatch(one -> decimalsFit(schema.valueSchema(), one));
            case MAP -> ((Map<?, ?>) value).entrySet().stream().allMatch(one ->
                    decimalsFit(schema.keySchema(), one.getKey()) && decimalsFit(schema.valueSchema(), one.getValue()));
            default -> !(value instanceof BigDecimal decimal)
                    || decimal.precision() <= DECIMAL_DIGITS && decimal.scale() == scale(schema);
        };
    }

    private static int scale(Schema schema) {
        String scale = schema.parameters() == null ? null : schema.parameters().get(Decimal.SCALE_FIELD);
        if (scale == null) throw new DataException("A decimal's schema has no scale: " + schema);
        return Integer.parseInt(scale);
    }

    private static void write(Out out, Schema schema, Object[] v, int n) {
        out.validity(v, n);
        out.align();
        ByteBuffer b = out.room(16L * n + 16);
        String name = schema.name() == null ? "" : schema.name();
        switch (schema.type()) {
            case BOOLEAN -> {
                for (int i = 0; i < n; i += 8) {
                    int bits = 0;
                    for (int j = i; j < n && j < i + 8; j++) if (v[j] != null && (Boolean) v[j]) bits |= 1 << (j - i);
                    b.put((byte) bits);
                }
            }
            case INT8 -> { for (int i = 0; i < n; i++) b.put(v[i] == null ? 0 : (Byte) v[i]); }
            case INT16 -> { for (int i = 0; i < n; i++) b.putShort(v[i] == null ? 0 : (Short) v[i]); }
            case INT32 -> { for (int i = 0; i < n; i++) b.putInt(v[i] == null ? 0 : int32(name, v[i])); }
            case INT64 -> { for (int i = 0; i < n; i++) b.putLong(v[i] == null ? 0 : int64(name, v[i])); }
            case FLOAT32 -> { for (int i = 0; i < n; i++) b.putFloat(v[i] == null ? 0 : (Float) v[i]); }
            case FLOAT64 -> { for (int i = 0; i < n; i++) b.putDouble(v[i] == null ? 0 : (Double) v[i]); }
            case STRING -> out.binary(texts(v, n), n);
            case BYTES -> {
                if (name.equals(Decimal.LOGICAL_NAME)) for (int i = 0; i < n; i++) decimal(b, (BigDecimal) v[i]);
                else out.binary(bytes(v, n), n);
            }
            case ARRAY -> {
                List<Object> all = new ArrayList<>();
                int[] ends = new int[n + 1];
                for (int i = 0; i < n; i++) {
                    if (v[i] != null) all.addAll((Collection<?>) v[i]);
                    ends[i + 1] = all.size();
                }
                out.integers(ends, n + 1);
                out.integer(all.size());
                write(out, schema.valueSchema(), all.toArray(), all.size());
            }
            case MAP -> {
                List<Object> keys = new ArrayList<>();
                List<Object> values = new ArrayList<>();
                int[] ends = new int[n + 1];
                for (int i = 0; i < n; i++) {
                    if (v[i] != null) {
                        ((Map<?, ?>) v[i]).forEach((key, value) -> {
                            keys.add(key);
                            values.add(value);
                        });
                    }
                    ends[i + 1] = keys.size();
                }
                out.integers(ends, n + 1);
                out.integer(keys.size());
                write(out, schema.keySchema(), keys.toArray(), keys.size());
                write(out, schema.valueSchema(), values.toArray(), values.size());
            }
            case STRUCT -> {
                for (int i = 0; i < n; i++) if (v[i] != null) ofThis(schema, (Struct) v[i]);
                for (Field field : schema.fields()) {
                    Object[] children = new Object[n];
                    for (int i = 0; i < n; i++) {
                        if (v[i] != null) children[i] = ((Struct) v[i]).getWithoutDefault(field.name());
                    }
                    write(out, field.schema(), children, n);
                }
            }
        }
    }

    /** A struct with another schema may have the same fields: converters of Java refuse it too. */
    private static void ofThis(Schema schema, Struct struct) {
        if (struct.schema() != schema && !struct.schema().equals(schema)) throw new DataException("Mismatching schema.");
    }

    private static int int32(String name, Object value) {
        return switch (name) {
            case Date.LOGICAL_NAME -> days(((java.util.Date) value).getTime());
            case Time.LOGICAL_NAME -> msOfDay(((java.util.Date) value).getTime());
            default -> (Integer) value;
        };
    }

    /** Source: Date.fromLogical, whose Calendar takes ten times as long. */
    private static int days(long ms) {
        if (ms % MS_OF_DAY != 0) throw new DataException("A Date has a time of day");
        return (int) (ms / MS_OF_DAY);
    }

    /** Source: Time.fromLogical. */
    private static int msOfDay(long ms) {
        if (ms < 0 || ms > MS_OF_DAY) throw new DataException("A Time has a date");
        return (int) ms;
    }

    private static long int64(String name, Object value) {
        return name.equals(Timestamp.LOGICAL_NAME) ? ((java.util.Date) value).getTime() : (Long) value;
    }

    private static byte[][] texts(Object[] v, int n) {
        byte[][] made = new byte[n][];
        for (int i = 0; i < n; i++) if (v[i] != null) made[i] = utf8((String) v[i]);
        return made;
    }

    private static byte[] utf8(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (!Character.isSurrogate(text.charAt(i))) continue;
            boolean isPair = i + 1 < text.length() && Character.isSurrogatePair(text.charAt(i), text.charAt(i + 1));
            if (!isPair) throw new HalfSurrogate();
            i++;
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[][] bytes(Object[] v, int n) {
        byte[][] made = new byte[n][];
        for (int i = 0; i < n; i++) {
            if (v[i] instanceof byte[] one) made[i] = one;
            else if (v[i] != null) {
                ByteBuffer one = (ByteBuffer) v[i];
                made[i] = new byte[one.remaining()];
                one.duplicate().get(made[i]);
            }
        }
        return made;
    }

    private static void decimal(ByteBuffer b, BigDecimal value) {
        byte[] big = value == null ? new byte[1] : value.unscaledValue().toByteArray();
        byte fill = (byte) (big[0] < 0 ? -1 : 0);
        for (int i = 0; i < 16; i++) b.put(i < big.length ? big[big.length - 1 - i] : fill);
    }

    // --- reading ---

    private static Object[] read(In in, Schema schema, int n) {
        boolean[] there = in.validity(n);
        in.align();
        Object[] v = new Object[n];
        String name = schema.name() == null ? "" : schema.name();
        switch (schema.type()) {
            case BOOLEAN -> {
                ByteBuffer b = in.raw((n + 7) / 8);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = (b.get(i >> 3) >> (i & 7) & 1) == 1;
            }
            case INT8 -> {
                ByteBuffer b = in.raw(n);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = b.get(i);
            }
            case INT16 -> {
                ByteBuffer b = in.raw(2 * n);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = b.getShort(2 * i);
            }
            case INT32 -> {
                ByteBuffer b = in.raw(4 * n);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = ofInt32(name, b.getInt(4 * i));
            }
            case INT64 -> {
                ByteBuffer b = in.raw(8 * n);
                for (int i = 0; i < n; i++) {
                    if (!there[i]) continue;
                    long one = b.getLong(8 * i);
                    v[i] = name.equals(Timestamp.LOGICAL_NAME) ? new java.util.Date(one) : (Object) one;
                }
            }
            case FLOAT32 -> {
                ByteBuffer b = in.raw(4 * n);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = b.getFloat(4 * i);
            }
            case FLOAT64 -> {
                ByteBuffer b = in.raw(8 * n);
                for (int i = 0; i < n; i++) if (there[i]) v[i] = b.getDouble(8 * i);
            }
            case STRING -> {
                byte[][] texts = in.binary(n);
                for (int i = 0; i < n; i++) if (texts[i] != null) v[i] = new String(texts[i], StandardCharsets.UTF_8);
            }
            case BYTES -> {
                if (name.equals(Decimal.LOGICAL_NAME)) {
                    ByteBuffer b = in.raw(16 * n);
                    int scale = scale(schema);
                    for (int i = 0; i < n; i++) if (there[i]) v[i] = new BigDecimal(ofInt128(b, 16 * i), scale);
                } else {
                    byte[][] found = in.binary(n);
                    System.arraycopy(found, 0, v, 0, n);
                }
            }
            case ARRAY -> {
                int[] ends = in.integers(n + 1);
                Object[] all = read(in, schema.valueSchema(), in.integer());
                for (int i = 0; i < n; i++) {
                    if (there[i]) v[i] = new ArrayList<>(Arrays.asList(all).subList(ends[i], ends[i + 1]));
                }
            }
            case MAP -> {
                int[] ends = in.integers(n + 1);
                int size = in.integer();
                Object[] keys = read(in, schema.keySchema(), size);
                Object[] values = read(in, schema.valueSchema(), size);
                for (int i = 0; i < n; i++) {
                    if (!there[i]) continue;
                    Map<Object, Object> made = new LinkedHashMap<>();
                    for (int j = ends[i]; j < ends[i + 1]; j++) made.put(keys[j], values[j]);
                    v[i] = made;
                }
            }
            case STRUCT -> {
                for (int i = 0; i < n; i++) if (there[i]) v[i] = new Struct(schema);
                for (Field field : schema.fields()) {
                    Object[] children = read(in, field.schema(), n);
                    for (int i = 0; i < n; i++) if (there[i] && children[i] != null) ((Struct) v[i]).put(field, children[i]);
                }
            }
        }
        return v;
    }

    private static Object ofInt32(String name, int value) {
        if (name.equals(Date.LOGICAL_NAME)) return new java.util.Date(value * MS_OF_DAY);
        return name.equals(Time.LOGICAL_NAME) ? new java.util.Date(value) : (Object) value;
    }

    private static BigInteger ofInt128(ByteBuffer b, int at) {
        byte[] big = new byte[16];
        for (int i = 0; i < 16; i++) big[15 - i] = b.get(at + i);
        return new BigInteger(big);
    }
}
