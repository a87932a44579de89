import keuka
from keuka.pipelines import Input, Queries, Sink

keuka.Pipeline(
    streams={"Stock": Input("parquet", path="ticks")},
    queries=[Queries(text="SELECT * FROM Stock")],
    sinks=[Sink("parquet", path="a" * 300)],
).check(embedded=True)
