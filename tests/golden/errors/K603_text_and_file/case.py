import keuka
from keuka.pipelines import Input, Queries, Sink

keuka.Pipeline(
    streams={"Stock": Input("parquet", path="ticks")},
    queries=[Queries(text="SELECT * FROM Stock", file="rebound.cel")],
    sinks=[Sink("console")],
).check(embedded=True)
