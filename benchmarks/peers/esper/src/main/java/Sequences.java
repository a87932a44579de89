import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * W2 and W3, which differ in their statement. Events are ts, type, id, attr1.
 *
 * <p>What was tried, millions of events per second of thread CPU time (2 noisy cores, warm; W2, W2 dense, W3): a join of windows, which
 * is what is here, 8.8, 3.1 and 8.8; a pattern of {@code ->} that ends at the first event after the window 5.7, 1.9 and 5.8, and it
 * finds 50 matches too many in W2 dense, where that event is itself a C; the last B by {@code max} instead of {@code exists} 7.5 (W3).
 */
final class Sequences implements Workload {
    private static final long WINDOW = 10_000;
    // A window lets go of an event when the next one enters it, so what it holds may be too old for a C.
    private static final String IN_WINDOW = "#ext_timed(ts, " + (WINDOW + 1) + " milliseconds)";
    private static final String FROM =
            " from Event(type='C') as c unidirectional, Event(type='A')" + IN_WINDOW + " as a";
    private static final String WHERE = " where a.attr1 = c.attr1 and c.ts - a.ts <= " + WINDOW;
    static final String W2 =
            "select a.ts as a_ts, b.ts as b_ts, c.ts as c_ts" + FROM + ", Event(type='B')" + IN_WINDOW + " as b"
                    + WHERE + " and b.attr1 = c.attr1 and a.ts < b.ts and b.ts < c.ts";
    static final String W3 =
            "select a.ts as a_ts, c.ts as c_ts" + FROM + WHERE
                    + " and not exists (select * from Event(type='B')" + IN_WINDOW + " as b"
                    + " where b.attr1 = c.attr1 and b.ts > a.ts and b.ts < c.ts)";

    private final String epl;
    private final List<String> times;
    private final Event[] original;
    private long nPasses = -1;

    /** Esper reads the properties of an event by these getters. */
    public static final class Event {
        private final long ts;
        private final String type;
        private final long id;
        private final long attr1;

        Event(long ts, String type, long id, long attr1) {
            this.ts = ts;
            this.type = type;
            this.id = id;
            this.attr1 = attr1;
        }

        public long getTs() {
            return ts;
        }

        public String getType() {
            return type;
        }

        public long getId() {
            return id;
        }

        public long getAttr1() {
            return attr1;
        }
    }

    /** A type is one String object however often it comes: its hash is computed once. */
    Sequences(String epl, List<String[]> rows, List<String> times) {
        this.epl = epl;
        this.times = times;
        Map<String, String> types = new HashMap<>();
        original = rows.stream()
                .map(cells -> new Event(
                        Long.parseLong(cells[0]),
                        types.computeIfAbsent(cells[1], cell -> cell),
                        Long.parseLong(cells[2]),
                        Long.parseLong(cells[3])))
                .toArray(Event[]::new);
    }

    @Override
    public Class<?> type() {
        return Event.class;
    }

    @Override
    public String epl() {
        return epl;
    }

    @Override
    public List<String> times() {
        return times;
    }

    /** The events again, later than those of the pass before by more than the window. */
    @Override
    public Object[] events() {
        nPasses++;
        Object[] moved = new Object[original.length];
        for (int i = 0; i < moved.length; i++) {
            Event event = original[i];
            moved[i] = new Event(event.ts + shift(), event.type, event.id, event.attr1);
        }
        return moved;
    }

    @Override
    public Object[] breaks() {
        return new Object[0];
    }

    @Override
    public long shift() {
        return nPasses * (original[original.length - 1].ts + WINDOW + 1);
    }
}
