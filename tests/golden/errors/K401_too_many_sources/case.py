import keuka

queries = ["SELECT * FROM FILTER {t < 0} S PUBLISH Q0"]
queries += [f"SELECT * FROM Q{i} UNION Q{i} PUBLISH Q{i + 1}" for i in range(40)]
keuka.match("; ".join(queries), [{"t": 1}], time="t")
