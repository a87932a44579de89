import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.EventSender;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.util.FilterServiceProfile;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * W1 in Esper: the events of a CSV file (ts, name, price, volume) as objects in memory, sent by one thread in this process.
 *
 * <p>{@code java -jar w1.jar events.csv n_warm_up} makes the warm-up passes, prints {@code ready}, and then makes one timed pass for
 * every line of its input, so that the caller decides when each runs. A pass prints one JSON object: seconds, and the matches.
 *
 * <p>What was tried, millions of events per second of thread CPU time (2 noisy cores, warm): {@code partition by} 9.3 and a context
 * by name 6.7; events as objects 9.3, as arrays 9.1, as maps 8.6; without the settings of {@link #configuration} 8.8; G1 instead of
 * the serial collector 7.1; a {@code keepall} window 2.2. The first is what is here.
 */
public final class EsperW1 {
    private static final String EPL =
            "@name('W1') select * from Tick match_recognize ("
                    + " partition by name"
                    + " measures A.ts as a_ts, C.ts as c_ts"
                    + " all matches after match skip to next row" // every A may start
                    + " pattern (A B{3,} C)"
                    + " define A as A.volume > 19800, B as B.price < prev(B.price), C as C.price > 1.05 * prev(C.price))";

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

    public static void main(String[] args) throws Exception {
        Tick[] ticks = read(Path.of(args[0]));
        Tick[] breaks = breaks(ticks);
        Configuration configuration = configuration();
        EPRuntime runtime = EPRuntimeProvider.getRuntime("w1", configuration);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(EPL, new CompilerArguments(configuration));
        List<long[]> matches = new ArrayList<>();
        runtime.getDeploymentService().deploy(compiled).getStatements()[0].addListener((found, old, statement, source) -> {
            for (EventBean match : found) {
                matches.add(new long[] {(Long) match.get("a_ts"), (Long) match.get("c_ts")});
            }
        });
        EventSender sender = runtime.getEventService().getEventSender("Tick");
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            pass(sender, ticks, breaks, matches);
        }
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        while (orders.readLine() != null) {
            System.out.println(pass(sender, ticks, breaks, matches));
        }
        runtime.destroy();
    }

    /** No clock, no queues, no locks: one thread sends events and nothing else happens. */
    private static Configuration configuration() {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Tick", Tick.class);
        var threading = configuration.getRuntime().getThreading();
        threading.setInternalTimerEnabled(false);
        threading.setListenerDispatchPreserveOrder(false);
        threading.setInsertIntoDispatchPreserveOrder(false);
        threading.setNamedWindowConsumerDispatchPreserveOrder(false);
        configuration.getRuntime().getExecution().setDisableLocking(true);
        configuration.getRuntime().getExecution().setFilterServiceProfile(FilterServiceProfile.READMOSTLY);
        return configuration;
    }

    /** One run over all events. The statement stays deployed, so that its compiled code stays warm; the breaks empty it for the next. */
    private static String pass(EventSender sender, Tick[] ticks, Tick[] breaks, List<long[]> matches) {
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        matches.clear();
        System.gc();
        long processBegan = process.getProcessCpuTime();
        long threadBegan = threads.getCurrentThreadCpuTime();
        for (Tick tick : ticks) {
            sender.sendEvent(tick);
        }
        double threadSeconds = (threads.getCurrentThreadCpuTime() - threadBegan) / 1e9;
        double processSeconds = (process.getProcessCpuTime() - processBegan) / 1e9;
        String found = json(matches);
        for (Tick tick : breaks) {
            sender.sendEvent(tick);
        }
        return String.format(
                Locale.ROOT,
                "{\"thread_cpu_seconds\": %.6f, \"process_cpu_seconds\": %.6f, \"events_per_second\": %.0f, \"matches\": %s}",
                threadSeconds, processSeconds, ticks.length / threadSeconds, found);
    }

    private static String json(List<long[]> matches) {
        List<String> pairs = new ArrayList<>();
        for (long[] match : matches) {
            pairs.add("[" + match[0] + ", " + match[1] + "]");
        }
        return "[" + String.join(", ", pairs) + "]";
    }

    /** A name is one String object however often it comes: its hash is computed once. */
    private static Tick[] read(Path path) throws IOException {
        Map<String, String> names = new HashMap<>();
        List<Tick> ticks = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split(",");
                String name = names.computeIfAbsent(cells[1], cell -> cell);
                ticks.add(new Tick(Long.parseLong(cells[0]), name, Double.parseDouble(cells[2]), Long.parseLong(cells[3])));
            }
        }
        return ticks.toArray(new Tick[0]);
    }

    /** For every name a tick at its last price: neither a fall nor a rise, too small to start, so it ends every run and matches nothing. */
    private static Tick[] breaks(Tick[] ticks) {
        Map<String, Tick> last = new LinkedHashMap<>();
        for (Tick tick : ticks) {
            last.put(tick.name, tick);
        }
        return last.values().stream().map(tick -> new Tick(tick.ts, tick.name, tick.price, 0)).toArray(Tick[]::new);
    }
}
