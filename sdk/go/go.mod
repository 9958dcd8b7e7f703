module shelly-plugin

go 1.24
