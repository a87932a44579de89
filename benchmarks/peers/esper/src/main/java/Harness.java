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
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * One workload in Esper: the events of a CSV file as objects in memory, sent by one thread in this process.
 *
 * <p>{@code java -jar workloads.jar w1|w2|w3 events.csv n_warm_up} makes the warm-up passes, prints {@code ready}, and then makes one
 * timed pass for every line of its input, so that the caller decides when each runs. A pass prints one JSON object: seconds, and the
 * times of each match.
 */
public final class Harness {
    private final Workload workload;
    private final EventSender sender;
    private final List<long[]> matches = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        Workload workload = Workload.named(args[0], Path.of(args[1]));
        Configuration configuration = configuration(workload);
        EPRuntime runtime = EPRuntimeProvider.getRuntime("benchmark", configuration);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(workload.epl(), new CompilerArguments(configuration));
        Harness harness = new Harness(workload, runtime, compiled);
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            harness.pass();
        }
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        while (orders.readLine() != null) {
            System.out.println(harness.pass());
        }
        runtime.destroy();
    }

    private Harness(Workload workload, EPRuntime runtime, EPCompiled compiled) throws Exception {
        this.workload = workload;
        sender = runtime.getEventService().getEventSender(workload.type().getSimpleName());
        String[] times = workload.times().toArray(new String[0]);
        runtime.getDeploymentService().deploy(compiled).getStatements()[0].addListener((found, old, statement, source) -> {
            for (EventBean match : found) {
                long[] at = new long[times.length];
                for (int i = 0; i < times.length; i++) {
                    at[i] = (Long) match.get(times[i]);
                }
                matches.add(at);
            }
        });
    }

    /** No clock, no queues, no locks: one thread sends events and nothing else happens. */
    private static Configuration configuration(Workload workload) {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType(workload.type().getSimpleName(), workload.type());
        var threading = configuration.getRuntime().getThreading();
        threading.setInternalTimerEnabled(false);
        threading.setListenerDispatchPreserveOrder(false);
        threading.setInsertIntoDispatchPreserveOrder(false);
        threading.setNamedWindowConsumerDispatchPreserveOrder(false);
        configuration.getRuntime().getExecution().setDisableLocking(true);
        configuration.getRuntime().getExecution().setFilterServiceProfile(FilterServiceProfile.READMOSTLY);
        return configuration;
    }

    private String pass() {
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        Object[] events = workload.events();
        matches.clear();
        System.gc();
        long processBegan = process.getProcessCpuTime();
        long threadBegan = threads.getCurrentThreadCpuTime();
        for (Object event : events) {
            sender.sendEvent(event);
        }
        double threadSeconds = (threads.getCurrentThreadCpuTime() - threadBegan) / 1e9;
        double processSeconds = (process.getProcessCpuTime() - processBegan) / 1e9;
        String found = json(workload.shift());
        for (Object event : workload.breaks()) {
            sender.sendEvent(event);
        }
        return String.format(
                Locale.ROOT,
                "{\"thread_cpu_seconds\": %.6f, \"process_cpu_seconds\": %.6f, \"matches\": %s}",
                threadSeconds, processSeconds, found);
    }

    private String json(long shift) {
        List<String> rows = new ArrayList<>();
        for (long[] match : matches) {
            rows.add(Arrays.toString(Arrays.stream(match).map(time -> time - shift).toArray()));
        }
        return "[" + String.join(", ", rows) + "]";
    }
}
