import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A statement and its events. The statement stays deployed from one pass to the next, so that its compiled code stays warm. */
interface Workload {
    /** The one event type, a class whose getters are the attributes. */
    Class<?> type();

    String epl();

    /** The attributes of a match, each a time. */
    List<String> times();

    /** The events of the next pass. They meet nothing that an earlier pass has left. */
    Object[] events();

    /** What is sent after a pass, so that it leaves nothing the next one could meet. */
    Object[] breaks();

    /** What the events of this pass have been moved by in time. */
    long shift();

    static Workload named(String name, Path events) throws IOException {
        return switch (name) {
            case "w1" -> new W1(cells(events));
            case "w2" -> new Sequences(Sequences.W2, cells(events), List.of("a_ts", "b_ts", "c_ts"));
            case "w3" -> new Sequences(Sequences.W3, cells(events), List.of("a_ts", "c_ts"));
            default -> throw new IllegalArgumentException(name + " is none of w1, w2, w3");
        };
    }

    private static List<String[]> cells(Path path) throws IOException {
        List<String[]> rows = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                rows.add(line.split(","));
            }
        }
        return rows;
    }
}
