import keuka

with open("clicks.csv", "w") as file:
    file.write("at,user\n2024-05-01 10:00:00,ann\n2024-05-01 10:05:00,bob\n2024-05-01 10:02:00,cyd\n")
keuka.match("SELECT * FROM Clicks", "clicks.csv")
