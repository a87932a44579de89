import datetime

import keuka

clicks, mails = [{"at": 1}], [{"at": datetime.datetime(2024, 5, 1)}]
keuka.match("SELECT * FROM Clicks NEXT Mails", {"Clicks": clicks, "Mails": mails}, time="at")
