import keuka

keuka.match("SELECT * FROM Clicks", "clicks.parquet", time="at")
