import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * W1: per name a large trade, three or more falls, a rebound. Events are ts, name, price, volume.
 *
 * <p>What was tried, millions of events per second of thread CPU time (2 noisy cores, warm): {@code partition by} 9.3 and a context
 * by name 6.7; events as objects 9.3, as arrays 9.1, as maps 8.6; without the settings of the harness 8.8; G1 instead of the serial
 * collector 7.1; a {@code keepall} window 2.2. The first is what is here.
 */
final class W1 implements Workload {
    private final Tick[] ticks;

    /** Esper reads the properties of an event by these getters. */
    public static final class Tick {
        private final long ts;
        private final String name;
        private final double price;
        private final long volume;

        Tick(long ts, String name, double price, long volume) {
            this.ts = ts;
            this.name = name;
            this.price = price;
            this.volume = volume;
        }

        public long getTs() {
            return ts;
        }

        public String getName() {
            return name;
        }

        public double getPrice() {
            return price;
        }

        public long getVolume() {
            return volume;
        }
    }

    /** A name is one String object however often it comes: its hash is computed once. */
    W1(List<String[]> rows) {
        Map<String, String> names = new HashMap<>();
        ticks = rows.stream()
                .map(cells -> new Tick(
                        Long.parseLong(cells[0]),
                        names.computeIfAbsent(cells[1], cell -> cell),
                        Double.parseDouble(cells[2]),
                        Long.parseLong(cells[3])))
                .toArray(Tick[]::new);
    }

    @Override
    public Class<?> type() {
        return Tick.class;
    }

    @Override
    public String epl() {
        return "select * from Tick match_recognize ("
                + " partition by name"
                + " measures A.ts as a_ts, C.ts as c_ts"
                + " all matches after match skip to next row" // every A may start
                + " pattern (A B{3,} C)"
                + " define A as A.volume > 19800, B as B.price < prev(B.price), C as C.price > 1.05 * prev(C.price))";
    }

    @Override
    public List<String> times() {
        return List.of("a_ts", "c_ts");
    }

    @Override
    public Object[] events() {
        return ticks;
    }

    /** For every name a tick at its last price: neither a fall nor a rise, too small to start, so it ends every run and matches nothing. */
    @Override
    public Object[] breaks() {
        Map<String, Tick> last = new LinkedHashMap<>();
        for (Tick tick : ticks) {
            last.put(tick.name, tick);
        }
        return last.values().stream().map(tick -> new Tick(tick.ts, tick.name, tick.price, 0)).toArray();
    }

    @Override
    public long shift() {
        return 0;
    }
}
