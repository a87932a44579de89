import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * W2 and W3 in Flink CEP: the events of a CSV file (ts, type, id, attr1) as objects in memory, a job in a mini cluster in this process.
 *
 * <p>{@code java -jar sequences.jar w2|w3 events.csv n_warm_up} makes the warm-up passes, prints {@code ready}, and then makes one timed
 * pass for every line of its input, so that the caller decides when each runs. A pass prints one JSON object: seconds, and the matches.
 *
 * <p>A job has two tasks and therefore two threads: one reads the events and drops the types no pattern names, the other matches. Their
 * CPU times together are the time of a pass; starting the cluster (1 s), its other threads, the collector and the compiler are left out.
 *
 * <p>What was tried, millions of events per second of that time (2 noisy cores, warm, W2): as it is here 1.4; with all types handed to the
 * pattern 0.25; G1 instead of the serial collector 1.2.
 */
public final class FlinkSequences {
    private static final long WITHIN = 10_001; // a match is shorter than this

    // The tasks run in this process and reach these without any copy.
    private static Event[] events;
    private static final List<long[]> matches = new ArrayList<>();
    private static final AtomicLong taskNanos = new AtomicLong();

    /** Public fields and an empty constructor let Flink use its own serializer, which is faster than Kryo. */
    public static final class Event {
        public long ts;
        public String type;
        public long id;
        public long attr1;
    }

    public static void main(String[] args) throws Exception {
        Pattern<Event, ?> pattern = pattern(args[0]);
        events = read(Path.of(args[1]));
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            pass(pattern);
        }
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        while (orders.readLine() != null) {
            System.out.println(pass(pattern));
        }
    }

    private static Pattern<Event, ?> pattern(String workload) {
        Pattern<Event, Event> a = Pattern.<Event>begin("a", AfterMatchSkipStrategy.noSkip()).where(type("A"));
        Pattern<Event, Event> b = workload.equals("w3") ? a.notFollowedBy("b") : a.followedByAny("b");
        return b.where(type("B")).followedByAny("c").where(type("C")).within(Duration.ofMillis(WITHIN));
    }

    private static SimpleCondition<Event> type(String type) {
        return SimpleCondition.of(event -> event.type.equals(type));
    }

    private static String pass(Pattern<Event, ?> pattern) throws Exception {
        matches.clear();
        taskNanos.set(0);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        var source = new DataGeneratorSource<Event>(
                index -> events[index.intValue()], events.length, TypeInformation.of(Event.class));
        WatermarkStrategy<Event> inOrder =
                WatermarkStrategy.<Event>forMonotonousTimestamps().withTimestampAssigner((event, none) -> event.ts);
        var named = environment.fromSource(source, inOrder, "events").filter(new Named()).keyBy(event -> event.attr1);
        CEP.pattern(named, pattern).process(new Matches()).returns(Types.LONG).sinkTo(new DiscardingSink<>());
        System.gc();
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long began = process.getProcessCpuTime();
        environment.execute();
        double processSeconds = (process.getProcessCpuTime() - began) / 1e9;
        return String.format(
                Locale.ROOT,
                "{\"thread_cpu_seconds\": %.6f, \"process_cpu_seconds\": %.6f, \"matches\": %s}",
                taskNanos.get() / 1e9, processSeconds, json());
    }

    /** CPU time of one task's thread, from the opening of a function in it to its closing. */
    private static final class TaskClock {
        private long began;

        void start() {
            began = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        }

        void stop() {
            taskNanos.addAndGet(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - began);
        }
    }

    private static final class Named extends RichFilterFunction<Event> {
        private transient TaskClock clock;

        @Override
        public void open(OpenContext context) {
            clock = new TaskClock();
            clock.start();
        }

        @Override
        public boolean filter(Event event) {
            return event.type.equals("A") || event.type.equals("B") || event.type.equals("C");
        }

        @Override
        public void close() {
            clock.stop();
        }
    }

    private static final class Matches extends PatternProcessFunction<Event, Long> {
        private transient TaskClock clock;

        @Override
        public void open(OpenContext context) {
            clock = new TaskClock();
            clock.start();
        }

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> none) {
            matches.add(match.values().stream().mapToLong(found -> found.get(0).ts).sorted().toArray());
        }

        @Override
        public void close() {
            clock.stop();
        }
    }

    private static String json() {
        List<String> rows = new ArrayList<>();
        for (long[] match : matches) {
            rows.add(Arrays.toString(match));
        }
        return "[" + String.join(", ", rows) + "]";
    }

    /** A type is one String object however often it comes. */
    private static Event[] read(Path path) throws IOException {
        Map<String, String> types = new HashMap<>();
        List<Event> read = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split(",");
                Event event = new Event();
                event.ts = Long.parseLong(cells[0]);
                event.type = types.computeIfAbsent(cells[1], cell -> cell);
                event.id = Long.parseLong(cells[2]);
                event.attr1 = Long.parseLong(cells[3]);
                read.add(event);
            }
        }
        return read.toArray(new Event[0]);
    }
}
