//! A custom tool: the weather of three cities, from a table. `sdk/rust/README.md` shows the same tool with a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [GetWeather]);

struct GetWeather;

// The arguments. The model receives a JSON schema of this struct, with its doc comments.
#[derive(Deserialize, JsonSchema)]
struct GetWeatherArgs {
    /// The city, such as `Paris`.
    city: String,
}

// The result, as JSON.
#[derive(Serialize)]
struct Weather {
    temp: i32,
    condition: &'static str,
}

const CITIES: [(&str, Weather); 3] = [
    ("Paris", Weather { temp: 72, condition: "sunny" }),
    ("London", Weather { temp: 59, condition: "rainy" }),
    ("Tokyo", Weather { temp: 81, condition: "cloudy" }),
];

impl Tool for GetWeather {
    const NAME: &'static str = "get_weather";
    const DESCRIPTION: &'static str = "Gets the current weather of a city; the temperature is in °F.";
    // The tool changes nothing, and equal questions have equal answers: the host may repeat a call after a crash.
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = GetWeatherArgs;

    fn call(args: GetWeatherArgs, _call: &Call) -> Result<Reply, Error> {
        match CITIES.iter().find(|(city, _)| city.eq_ignore_ascii_case(args.city.trim())) {
            Some((_, weather)) => Reply::json(weather),
            // The model reads the error, so it says what would be right.
            None => Err(Error::NotFound(format!("unknown city `{}`; try Paris, London or Tokyo", args.city))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weather_city_lookup_ignores_case_and_spaces() {
        let reply = |city: &str| GetWeather::call(GetWeatherArgs { city: city.into() }, &Call::new("1"));
        assert_eq!(reply(" paris ").unwrap(), Reply::json(&CITIES[0].1).unwrap());
        assert!(matches!(reply("Atlantis"), Err(Error::NotFound(text)) if text.contains("try Paris")));
    }
}
