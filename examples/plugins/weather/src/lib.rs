//! A tool of one's own: the weather of three cities, out of a table. `sdk/rust/README.md` has the same tool with a server
//! behind it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [GetWeather]);

struct GetWeather;

// What the model may pass. It is shown a JSON schema of this, with the comments.
#[derive(Deserialize, JsonSchema)]
struct GetWeatherArgs {
    /// The city, such as `Paris`.
    city: String,
}

// What it gets back, as JSON.
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
    // Nothing changes, and the same question has the same answer: the host may ask again after a crash.
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = GetWeatherArgs;

    fn call(args: GetWeatherArgs, _call: &Call) -> Result<Reply, Error> {
        match CITIES.iter().find(|(city, _)| city.eq_ignore_ascii_case(args.city.trim())) {
            Some((_, weather)) => Reply::json(weather),
            // An error is read by the model: it says what would be right.
            None => Err(Error::NotFound(format!("`{}` is not known: try Paris, London or Tokyo", args.city))),
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
