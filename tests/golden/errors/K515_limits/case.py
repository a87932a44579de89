import keuka

keuka.Limits(memory="4 G", seconds=60)
