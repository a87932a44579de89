import keuka

keuka.cel("SELECT page FROM Clicks NEXT {$2.user = $1.user} Clicks").trace([{"t": 1, "user": "a", "page": "x"}], time="t", key={"usr": "a"})
